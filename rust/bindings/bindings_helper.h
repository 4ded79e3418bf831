/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers whose types and functions the kernel crate's own bindings lack.
 * What is taken from them is listed in bindgen_parameters.
 */
#include <linux/hrtimer_types.h>
#include <linux/aer.h>
#include <linux/completion.h>
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <net/netdev_queues.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iter.h>
#include <rdma/mlx5-abi.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>
