// SPDX-License-Identifier: GPL-2.0
//! Polling: the driver's interrupt schedules it, the core calls it until there is nothing left.

use kernel::{container_of, prelude::*, sync::Arc, types::Opaque};
use rmlx5_bindings as bindings;

use super::{pool::RxPage, DeviceRef, NetDevice, SkBuff};

/// What there is to poll.
pub trait Poller: Send + Sync + 'static {
    /// Handles what is there, at most [`Poll::budget`] received packets. Softirq context, one call at a
    /// time. With a budget of 0 only what was sent may be looked at.
    fn poll(&self, poll: &Poll<'_>) -> Outcome;

    /// There is nothing left: asks the hardware for an interrupt as soon as there is. Softirq context,
    /// after a [`Poller::poll`] that said so.
    fn arm(&self);
}

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is more; call again.
    More,
    /// Nothing is left; that many packets were received.
    Idle(u32),
}

/// A call of [`Poller::poll`].
pub struct Poll<'a> {
    napi: *mut bindings::napi_struct,
    budget: i32,
    device: &'a NetDevice,
}

impl Poll<'_> {
    /// How many packets may be received.
    #[inline]
    pub fn budget(&self) -> u32 {
        u32::try_from(self.budget).unwrap_or(0)
    }

    /// The device that is polled.
    #[inline]
    pub fn device(&self) -> &NetDevice {
        self.device
    }

    /// An empty packet with room for `len` linear bytes; `None` when memory is short.
    #[inline]
    pub fn alloc(&self, len: u32) -> Option<SkBuff> {
        // SAFETY: By construction the instance is the one being polled.
        let skb = unsafe { bindings::napi_alloc_skb(self.napi.cast(), len) };
        // SAFETY: It is new.
        core::ptr::NonNull::new(skb).map(|skb| unsafe { SkBuff::from_raw(skb) })
    }

    /// A packet around the `len` bytes that the device has written behind the first `head` of `page`, which are the packet's
    /// headroom. Gives the page back when memory is short, or when not [`RxPage::TAIL`] bytes follow the frame.
    #[inline]
    pub fn around(
        &self,
        page: RxPage,
        head: u32,
        len: u32,
    ) -> core::result::Result<SkBuff, RxPage> {
        page.into_skb(head, len)
    }

    /// Hands a received packet to the stack.
    #[inline]
    pub fn receive(&self, skb: SkBuff) {
        // SAFETY: By construction the instance is the one being polled; the stack owns the packet now.
        unsafe { bindings::napi_gro_receive(self.napi, skb.into_raw()) };
    }

    /// Frees a packet that has been sent.
    #[inline]
    pub fn consume(&self, skb: SkBuff) {
        // SAFETY: The packet is ours; the budget is the one of this call.
        unsafe { bindings::napi_consume_skb(skb.into_raw(), self.budget) };
    }
}

#[pin_data]
struct Inner<P> {
    #[pin]
    napi: Opaque<bindings::napi_struct>,
    poller: P,
    device: DeviceRef,
}

// SAFETY: The core serialises what it does with the instance; the poller is `Send` and `Sync`.
unsafe impl<P: Poller> Send for Inner<P> {}
// SAFETY: As above.
unsafe impl<P: Poller> Sync for Inner<P> {}

/// An instance; it polls between [`Napi::enable`] and [`Napi::disable`] or drop.
///
/// # Invariants
///
/// `inner.napi` is on the list of `inner.device`, and enabled if and only if `enabled`.
pub struct Napi<P: Poller> {
    inner: Arc<Inner<P>>,
    enabled: bool,
    /// The queues that know of it.
    queue: Option<u16>,
}

impl<P: Poller> Napi<P> {
    /// Adds an instance to `device`, disabled. Sleeps. Fails with `ENOMEM`.
    pub fn new(device: &NetDevice, poller: P) -> Result<Self> {
        let inner = Arc::pin_init(
            pin_init!(Inner {
                napi <- Opaque::zeroed(),
                poller,
                device: device.hold(),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The device is valid; the instance stays where it is until it is taken off the list.
        unsafe {
            bindings::netif_napi_add(device.as_raw(), inner.napi.get(), Some(Self::poll));
        }
        // INVARIANT: Added above; a new instance is disabled.
        Ok(Self {
            inner,
            enabled: false,
            queue: None,
        })
    }

    /// The poller.
    pub fn poller(&self) -> &P {
        &self.inner.poller
    }

    /// What interrupts schedule it with.
    pub fn waker(&self) -> Waker<P> {
        Waker(self.inner.clone())
    }

    /// Tells people that it serves the queues with this number, and by which interrupt. Under the RTNL, sleeps.
    pub fn serves(&mut self, queue: u16, irq: u32) {
        let raw = self.inner.napi.get();
        // SAFETY: By the type invariants both are valid, and the RTNL is held.
        unsafe {
            bindings::netif_queue_set_both(self.inner.device.as_raw(), queue.into(), raw);
            bindings::netif_napi_set_irq(raw, i32::try_from(irq).unwrap_or(-1));
        }
        self.queue = Some(queue);
    }

    /// Lets it poll. Sleeps.
    pub fn enable(&mut self) {
        if !self.enabled {
            // SAFETY: By the type invariant it is disabled.
            unsafe { bindings::napi_enable(self.inner.napi.get()) };
            self.enabled = true;
        }
    }

    /// No poll runs any more when this returns. Sleeps.
    pub fn disable(&mut self) {
        if self.enabled {
            // SAFETY: By the type invariant it is enabled.
            unsafe { bindings::napi_disable(self.inner.napi.get()) };
            self.enabled = false;
        }
    }

    extern "C" fn poll(napi: *mut bindings::napi_struct, budget: c_int) -> c_int {
        // SAFETY: The core passes the `napi` of an `Inner<P>` that is on its list, and `Opaque` is
        // transparent.
        let inner = unsafe { &*container_of!(Opaque::cast_from(napi), Inner<P>, napi) };
        let poll = Poll {
            napi,
            budget,
            device: &inner.device,
        };
        let outcome = inner.poller.poll(&poll);
        if budget <= 0 {
            return 0;
        }
        match outcome {
            Outcome::Idle(work) if work < poll.budget() => {
                // CAST: below the budget.
                let work = work as c_int;
                // SAFETY: The instance is the one being polled.
                if unsafe { bindings::napi_complete_done(napi, work) } {
                    inner.poller.arm();
                }
                work
            }
            Outcome::Idle(_) | Outcome::More => budget,
        }
    }
}

impl<P: Poller> Drop for Napi<P> {
    fn drop(&mut self) {
        self.disable();
        if let Some(queue) = self.queue {
            // SAFETY: As in `serves`; what is made under the RTNL goes under it.
            unsafe {
                bindings::netif_queue_set_both(
                    self.inner.device.as_raw(),
                    queue.into(),
                    core::ptr::null_mut(),
                )
            };
        }
        // SAFETY: By the type invariant it is on the list, and disabled now. From here on scheduling it
        // does nothing, because a disabled instance counts as scheduled.
        unsafe { bindings::netif_napi_del(self.inner.napi.get()) };
    }
}

/// Schedules an instance; may outlive it.
pub struct Waker<P: Poller>(Arc<Inner<P>>);

impl<P: Poller> Waker<P> {
    /// Lets the instance poll soon. Any context, hard interrupts included.
    #[inline]
    pub fn schedule(&self) {
        // SAFETY: The memory is there as long as `self`; an instance that is disabled or off the list
        // is marked as scheduled, so that nothing happens.
        unsafe { bindings::napi_schedule(self.0.napi.get()) }
    }

    /// The poller.
    pub fn poller(&self) -> &P {
        &self.0.poller
    }
}
