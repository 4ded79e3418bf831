// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MAC control frames (802.3 clause 31): the port keeps them to itself. Those that ask for a pause are counted.

use super::frame::ETH_LEN;
use crate::hca::Hca;

const MAC_CONTROL: [u8; 2] = [0x88, 0x08];
/// Pause of the whole link (802.3 annex 31B).
const PAUSE: [u8; 2] = [0x00, 0x01];
/// Pause of some priorities (802.1Q): a bit for each in the word that follows.
const PRIORITY_PAUSE: [u8; 2] = [0x01, 0x01];

/// Takes a frame from the cable if it is such a one.
pub fn take(hca: &mut Hca, frame: &[u8]) -> bool {
    if frame.get(ETH_LEN - 2..ETH_LEN) != Some(&MAC_CONTROL) {
        return false;
    }
    let received = &mut hca.vport.received;
    match frame.get(ETH_LEN..ETH_LEN + 4) {
        Some(&[a, b, _, _]) if [a, b] == PAUSE => {
            received.link_pauses += 1;
            if let Some(first) = received.pauses.first_mut() {
                *first += 1;
            }
        }
        // The upper half of the word is reserved.
        Some(&[a, b, _, vector]) if [a, b] == PRIORITY_PAUSE => {
            for (priority, count) in received.pauses.iter_mut().enumerate() {
                *count += u64::from(vector >> priority & 1);
            }
        }
        _ => tracing::debug!("MAC control frame of another kind"),
    }
    true
}
