// SPDX-License-Identifier: GPL-2.0
//! Own work queues, and work that is cancelled when its owner goes away.
//!
//! The kernel crate's work items own themselves while they are queued, so nobody can wait for
//! them. A [`Task`] is owned by whoever made it: dropping it cancels it and waits.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{ops::Deref, ptr::NonNull};

use kernel::{
    container_of,
    prelude::*,
    str::CStrExt,
    sync::{Arc, LockClassKey},
    time::Delta,
    types::Opaque,
};
use rmlx5_bindings as bindings;

use crate::time::jiffies_of;

/// How a queue runs its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One item at a time, in the order of queueing.
    Ordered,
    /// Any number of items at once, on any CPU.
    Unbound,
}

/// A work queue of one's own; dropping the last reference runs what is queued and waits, so work on
/// the queue must not do that.
///
/// It has a rescuer thread (`WQ_MEM_RECLAIM`), so its work goes on when memory is short. It
/// dereferences to the kernel crate's queue, whose items can be enqueued too.
///
/// # Invariants
///
/// The pointer is a queue that belongs to this value.
pub struct Queue(NonNull<bindings::workqueue_struct>);

// SAFETY: Queues may be used by any thread.
unsafe impl Send for Queue {}
// SAFETY: Queues have their own locks.
unsafe impl Sync for Queue {}

impl Queue {
    /// Makes a queue; `name` names its threads. Sleeps. Fails with `ENOMEM`.
    pub fn new(name: &CStr, kind: Kind) -> Result<Arc<Self>> {
        let (flags, max_active) = match kind {
            Kind::Ordered => (bindings::wq_flags___WQ_ORDERED, 1),
            Kind::Unbound => (0, 0),
        };
        let flags = flags | bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: `name` is a string; it is copied.
        let queue = unsafe { bindings::alloc_workqueue(name.as_char_ptr(), flags, max_active) };
        // INVARIANT: Made above.
        let queue = Self(NonNull::new(queue).ok_or(ENOMEM)?);
        Ok(Arc::new(queue, GFP_KERNEL)?)
    }

    /// Waits until everything that was queued before the call has run.
    pub fn flush(&self) {
        // SAFETY: By the type invariant the queue is valid.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) }
    }
}

impl Deref for Queue {
    type Target = kernel::workqueue::Queue;

    fn deref(&self) -> &Self::Target {
        // SAFETY: By the type invariant the queue is valid while `self` is borrowed.
        unsafe { kernel::workqueue::Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is ours. It is drained first.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) }
    }
}

/// What a [`Task`] does.
pub trait Job: Send + Sync + 'static {
    /// Runs in process context, may sleep, never on two CPUs at once. Returns after what time it
    /// wants to run again, if it does.
    fn run(&self) -> Option<Delta>;
}

/// The memory of a task, which the work queue code points to.
#[pin_data]
struct Inner<T> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    queue: Arc<Queue>,
    job: T,
}

/// A job that can be queued any number of times; it is cancelled on drop.
///
/// Dropping waits for the job when it runs, so the job must not own its task, directly or not.
///
/// # Invariants
///
/// `inner` is initialised and freed in drop only, when the work cannot run any more.
pub struct Task<T: Job> {
    inner: NonNull<Inner<T>>,
}

// SAFETY: The parts are `Send`, and work may be cancelled by any thread.
unsafe impl<T: Job> Send for Task<T> {}
// SAFETY: `T` is `Sync` and work items have their own locks.
unsafe impl<T: Job> Sync for Task<T> {}

/// `task!(queue, "name", job)`: a [`Task`] with a lock class of its own.
#[macro_export]
macro_rules! task {
    ($queue:expr, $name:literal, $job:expr $(,)?) => {
        $crate::workqueue::Task::new(
            $queue,
            ::kernel::c_str!($name),
            [
                ::kernel::static_lock_class!(),
                ::kernel::static_lock_class!(),
            ],
            $job,
        )
    };
}
pub use task;

impl<T: Job> Task<T> {
    /// Makes a task that is not queued. Use [`task!`]. Fails with `ENOMEM`.
    pub fn new(
        queue: &Arc<Queue>,
        name: &'static CStr,
        keys: [Pin<&'static LockClassKey>; 2],
        job: T,
    ) -> Result<Self> {
        let inner = KBox::pin_init(
            pin_init!(Inner {
                work <- Opaque::ffi_init(|slot| {
                    let slot: *mut bindings::delayed_work = slot;
                    let name = name.as_char_ptr();
                    let [work_key, timer_key] = keys;
                    // SAFETY: `slot` is valid for writing, name and keys are static.
                    unsafe {
                        bindings::init_work_with_key(
                            &raw mut (*slot).work,
                            Some(Self::work),
                            false,
                            name,
                            work_key.as_ptr(),
                        );
                        bindings::timer_init_key(
                            &raw mut (*slot).timer,
                            Some(bindings::delayed_work_timer_fn),
                            bindings::TIMER_IRQSAFE,
                            name,
                            timer_key.as_ptr(),
                        );
                    }
                }),
                queue: queue.clone(),
                job,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: It stays where it is until drop.
        let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
        // INVARIANT: Initialised above.
        Ok(Self {
            inner: NonNull::new(inner).ok_or(ENOMEM)?,
        })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: By the type invariant it is valid; shared references only exist.
        unsafe { self.inner.as_ref() }
    }

    /// The job.
    pub fn job(&self) -> &T {
        &self.inner().job
    }

    /// Lets the job run soon. If it runs now, it will run again; if it is due later, it becomes due
    /// now. Any context, hard interrupts included.
    pub fn schedule(&self) {
        self.schedule_after(Delta::ZERO);
    }

    /// Lets the job run after `delay`, instead of when it was due before. Any context.
    pub fn schedule_after(&self, delay: Delta) {
        self.inner().arm(delay);
    }

    /// Cancels the job and waits if it runs. It may be queued again afterwards.
    pub fn cancel(&self) {
        // SAFETY: Initialised in `new`.
        unsafe { bindings::cancel_delayed_work_sync(self.inner().work.get()) };
    }

    /// Waits until the job has run, if it is queued or runs; what is due later runs at once.
    pub fn flush(&self) {
        // SAFETY: Initialised in `new`.
        unsafe { bindings::flush_delayed_work(self.inner().work.get()) };
    }

    extern "C" fn work(work: *mut bindings::work_struct) {
        // SAFETY: The work was initialised as the `work` of a `delayed_work`.
        let work = unsafe { container_of!(work, bindings::delayed_work, work) };
        // SAFETY: `Opaque` is transparent, and the delayed work is the `work` of an `Inner<T>`.
        let inner = unsafe { &*container_of!(Opaque::cast_from(work), Inner<T>, work) };
        if let Some(delay) = inner.job.run() {
            inner.arm(delay);
        }
    }
}

impl<T: Job> Inner<T> {
    fn arm(&self, delay: Delta) {
        // CAST: A constant that C declares as another kind of integer.
        let any_cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;
        // SAFETY: The queue outlives `self`, and drop disables the work before it frees it.
        unsafe {
            bindings::mod_delayed_work_on(
                any_cpu,
                self.queue.0.as_ptr(),
                self.work.get(),
                jiffies_of(delay),
            )
        };
    }
}

impl<T: Job> Drop for Task<T> {
    fn drop(&mut self) {
        // SAFETY: Initialised in `new`. From here on it cannot be queued, also not by itself.
        unsafe { bindings::disable_delayed_work_sync(self.inner().work.get()) };
        // SAFETY: From `KBox::into_raw`, and the work queue code has let go of it.
        drop(unsafe { KBox::from_raw(self.inner.as_ptr()) });
    }
}
