// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RoCEv2 packet codecs, ICRC and PSN arithmetic.
