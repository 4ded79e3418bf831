// SPDX-License-Identifier: GPL-2.0
/*
 * Static inline functions and macros of C headers, as functions that Rust can
 * call. bindgen reads this file too; the prefix rmlx5_helper_ is dropped on the
 * Rust side. Sorted by header.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/dim.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/gfp.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/interrupt.h>
#include <linux/ipv6.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/workqueue.h>
#include <net/devlink.h>
#include <net/netlink.h>
#include <net/page_pool/helpers.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iter.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

/* linux/completion.h */

void rmlx5_helper_reinit_completion(struct completion *x)
{
	reinit_completion(x);
}

/* linux/cpumask.h */

const struct cpumask *rmlx5_helper_cpumask_of(unsigned int cpu)
{
	return cpumask_of(cpu);
}

unsigned int rmlx5_helper_num_online_cpus(void)
{
	return num_online_cpus();
}

/* linux/device.h */

int rmlx5_helper_dev_to_node(struct device *dev)
{
	return dev_to_node(dev);
}

/*
 * Allocations for a device take the device's node. These two lend it another
 * one for the duration of an allocation, one device at a time.
 */
static DEFINE_MUTEX(rmlx5_node_lock);

int rmlx5_helper_dev_node_lend(struct device *dev, int node)
{
	int own;

	mutex_lock(&rmlx5_node_lock);
	own = dev_to_node(dev);
	set_dev_node(dev, node);
	return own;
}

void rmlx5_helper_dev_node_return(struct device *dev, int own)
{
	set_dev_node(dev, own);
	mutex_unlock(&rmlx5_node_lock);
}

/* linux/dim.h */

typedef void (*rmlx5_adaptive_fn)(void *owner, struct dim *dim);

/* The algorithm, and who hears of its results. */
struct rmlx5_adaptive {
	struct dim dim;
	void *owner;
	rmlx5_adaptive_fn apply;
};

static void rmlx5_adaptive_work(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct rmlx5_adaptive *adaptive =
		container_of(dim, struct rmlx5_adaptive, dim);

	adaptive->apply(adaptive->owner, dim);
}

struct dim *rmlx5_helper_adaptive_new(void *owner,
				      void (*apply)(void *owner,
						    struct dim *dim))
{
	struct rmlx5_adaptive *adaptive = kzalloc_obj(*adaptive);

	if (!adaptive)
		return NULL;
	adaptive->owner = owner;
	adaptive->apply = apply;
	adaptive->dim.mode = DIM_CQ_PERIOD_MODE_START_FROM_EQE;
	INIT_WORK(&adaptive->dim.work, rmlx5_adaptive_work);
	return &adaptive->dim;
}

void rmlx5_helper_adaptive_free(struct dim *dim)
{
	cancel_work_sync(&dim->work);
	kfree(container_of(dim, struct rmlx5_adaptive, dim));
}

void rmlx5_helper_adaptive_tell(struct dim *dim, u16 events, u64 packets,
				u64 bytes)
{
	struct dim_sample sample = {};

	dim_update_sample(events, packets, bytes, &sample);
	net_dim(dim, &sample);
}

void rmlx5_helper_adaptive_numbers(struct dim *dim, bool tx, u16 *usecs,
				   u16 *frames)
{
	struct dim_cq_moder moder;

	if (tx)
		moder = net_dim_get_tx_moderation(dim->mode, dim->profile_ix);
	else
		moder = net_dim_get_rx_moderation(dim->mode, dim->profile_ix);
	*usecs = moder.usec;
	*frames = moder.pkts;
}

void rmlx5_helper_adaptive_applied(struct dim *dim)
{
	dim->state = DIM_START_MEASURE;
}

/* linux/dma-mapping.h */

int rmlx5_helper_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

unsigned int rmlx5_helper_dma_get_max_seg_size(struct device *dev)
{
	return dma_get_max_seg_size(dev);
}

void rmlx5_helper_dma_sync_single_for_cpu(struct device *dev, dma_addr_t addr,
					  size_t size,
					  enum dma_data_direction dir)
{
	dma_sync_single_for_cpu(dev, addr, size, dir);
}

void rmlx5_helper_dma_sync_single_for_device(struct device *dev,
					     dma_addr_t addr, size_t size,
					     enum dma_data_direction dir)
{
	dma_sync_single_for_device(dev, addr, size, dir);
}

/* linux/etherdevice.h */

void rmlx5_helper_eth_hw_addr_set(struct net_device *dev, const u8 *addr)
{
	eth_hw_addr_set(dev, addr);
}

/* linux/ethtool.h: macros that rust/ext/net/ethtool.rs has as numbers */

static_assert(BIT(0) == ETHTOOL_COALESCE_RX_USECS);
static_assert(BIT(1) == ETHTOOL_COALESCE_RX_MAX_FRAMES);
static_assert(BIT(4) == ETHTOOL_COALESCE_TX_USECS);
static_assert(BIT(5) == ETHTOOL_COALESCE_TX_MAX_FRAMES);
static_assert(BIT(9) == ETHTOOL_COALESCE_USE_ADAPTIVE_RX);
static_assert(BIT(10) == ETHTOOL_COALESCE_USE_ADAPTIVE_TX);
static_assert(BIT(1) == ETH_TEST_FL_FAILED);

/* linux/gfp.h, linux/mm.h */

struct page *rmlx5_helper_alloc_pages_node(int nid, gfp_t gfp,
					   unsigned int order)
{
	return alloc_pages_node(nid, gfp, order);
}

void *rmlx5_helper_page_address(const struct page *page)
{
	return page_address(page);
}

/* linux/if_vlan.h */

/* A tag that the device has to send, -1 for none. */
int rmlx5_helper_skb_vlan_tag(const struct sk_buff *skb, u16 *proto)
{
	if (!skb_vlan_tag_present(skb))
		return -1;
	*proto = ntohs(skb->vlan_proto);
	return skb_vlan_tag_get(skb);
}

void rmlx5_helper_skb_put_ctag(struct sk_buff *skb, u16 tag)
{
	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), tag);
}

/* linux/interrupt.h */

void rmlx5_helper_local_bh_disable(void)
{
	local_bh_disable();
}

void rmlx5_helper_local_bh_enable(void)
{
	local_bh_enable();
}

int rmlx5_helper_irq_set_affinity_and_hint(unsigned int irq,
					   const struct cpumask *mask)
{
	return irq_set_affinity_and_hint(irq, mask);
}

int rmlx5_helper_irq_update_affinity_hint(unsigned int irq,
					  const struct cpumask *mask)
{
	return irq_update_affinity_hint(irq, mask);
}

/* linux/netdevice.h */

void *rmlx5_helper_netdev_priv(struct net_device *dev)
{
	return netdev_priv(dev);
}

void rmlx5_helper_set_netdev_dev(struct net_device *dev, struct device *parent)
{
	SET_NETDEV_DEV(dev, parent);
}

/* The driver filters the unicast addresses of the list. */
void rmlx5_helper_set_unicast_filter(struct net_device *dev)
{
	dev->priv_flags |= IFF_UNICAST_FLT;
}

void rmlx5_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void rmlx5_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

bool rmlx5_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

bool rmlx5_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

bool rmlx5_helper_netif_device_present(const struct net_device *dev)
{
	return netif_device_present(dev);
}

void rmlx5_helper_netif_tx_start_all_queues(struct net_device *dev)
{
	netif_tx_start_all_queues(dev);
}

void rmlx5_helper_netif_tx_disable(struct net_device *dev)
{
	netif_tx_disable(dev);
}

void rmlx5_helper_netif_napi_add(struct net_device *dev,
				 struct napi_struct *napi,
				 int (*poll)(struct napi_struct *, int))
{
	netif_napi_add(dev, napi, poll);
}

void rmlx5_helper_netif_napi_del(struct napi_struct *napi)
{
	netif_napi_del(napi);
}

void rmlx5_helper_napi_schedule(struct napi_struct *napi)
{
	napi_schedule(napi);
}

void rmlx5_helper_napi_gro_receive(struct napi_struct *napi,
				   struct sk_buff *skb)
{
	napi_gro_receive(napi, skb);
}

void rmlx5_helper_rtnl_lock(void)
{
	rtnl_lock();
}

void rmlx5_helper_rtnl_unlock(void)
{
	rtnl_unlock();
}

/* Transmit queues by number; the caller has checked it. */

void rmlx5_helper_netdev_queue_stop(struct net_device *dev, unsigned int queue)
{
	netif_tx_stop_queue(netdev_get_tx_queue(dev, queue));
}

void rmlx5_helper_netdev_queue_start(struct net_device *dev, unsigned int queue)
{
	netif_tx_start_queue(netdev_get_tx_queue(dev, queue));
}

void rmlx5_helper_netdev_queue_lock(struct net_device *dev, unsigned int queue)
{
	__netif_tx_lock_bh(netdev_get_tx_queue(dev, queue));
}

void rmlx5_helper_netdev_queue_unlock(struct net_device *dev,
				      unsigned int queue)
{
	__netif_tx_unlock_bh(netdev_get_tx_queue(dev, queue));
}

bool rmlx5_helper_netdev_queue_stopped(struct net_device *dev,
				       unsigned int queue)
{
	return netif_tx_queue_stopped(netdev_get_tx_queue(dev, queue));
}

void rmlx5_helper_netdev_queue_wake(struct net_device *dev, unsigned int queue)
{
	netif_tx_wake_queue(netdev_get_tx_queue(dev, queue));
}

void rmlx5_helper_netif_queue_set_both(struct net_device *dev,
				       unsigned int queue,
				       struct napi_struct *napi)
{
	netif_queue_set_napi(dev, queue, NETDEV_QUEUE_TYPE_RX, napi);
	netif_queue_set_napi(dev, queue, NETDEV_QUEUE_TYPE_TX, napi);
}

void rmlx5_helper_netif_napi_set_irq(struct napi_struct *napi, int irq)
{
	netif_napi_set_irq(napi, irq);
}

bool rmlx5_helper_netdev_queue_sent(struct net_device *dev, unsigned int queue,
				    unsigned int bytes, bool more)
{
	return __netdev_tx_sent_queue(netdev_get_tx_queue(dev, queue), bytes,
				      more);
}

void rmlx5_helper_netdev_queue_completed(struct net_device *dev,
					 unsigned int queue,
					 unsigned int packets,
					 unsigned int bytes)
{
	netdev_tx_completed_queue(netdev_get_tx_queue(dev, queue), packets,
				  bytes);
}

void rmlx5_helper_netdev_queue_reset(struct net_device *dev,
				     unsigned int queue)
{
	netdev_tx_reset_queue(netdev_get_tx_queue(dev, queue));
}

bool rmlx5_helper_netdev_xmit_more(void)
{
	return netdev_xmit_more();
}

/* Copies up to room addresses of a list; how many there are in all. */
unsigned int rmlx5_helper_hw_addr_list(struct netdev_hw_addr_list *list,
				       u8 *to, unsigned int room)
{
	struct netdev_hw_addr *ha;
	unsigned int n = 0;

	netdev_hw_addr_list_for_each(ha, list) {
		if (n < room)
			ether_addr_copy(to + n * ETH_ALEN, ha->addr);
		n++;
	}
	return n;
}

/* A frame that a device sends to itself, and who waits for it. */
struct rmlx5_loop {
	struct packet_type type;
	struct completion came;
	u64 content[6];
};

static int rmlx5_loop_came(struct sk_buff *skb, struct net_device *dev,
			   struct packet_type *type, struct net_device *orig)
{
	struct rmlx5_loop *loop = type->af_packet_priv;
	u64 content[ARRAY_SIZE(loop->content)];

	if (!skb_copy_bits(skb, 0, content, sizeof(content)) &&
	    !memcmp(content, loop->content, sizeof(content)))
		complete(&loop->came);
	kfree_skb(skb);
	return NET_RX_SUCCESS;
}

/* 1 when the frame came, 0 when it did not in so many jiffies. Sleeps. */
int rmlx5_helper_netdev_loop_back(struct net_device *dev, unsigned long wait)
{
	struct rmlx5_loop *loop;
	struct sk_buff *skb;
	int err;

	if (!netif_running(dev))
		return -ENETDOWN;
	loop = kzalloc_obj(*loop);
	skb = netdev_alloc_skb(dev, ETH_HLEN + sizeof(loop->content));
	if (!loop || !skb) {
		kfree_skb(skb);
		kfree(loop);
		return -ENOMEM;
	}
	init_completion(&loop->came);
	get_random_bytes(loop->content, sizeof(loop->content));
	loop->type.type = htons(ETH_P_LOOPBACK);
	loop->type.func = rmlx5_loop_came;
	loop->type.dev = dev;
	loop->type.af_packet_priv = loop;
	dev_add_pack(&loop->type);

	skb_reserve(skb, ETH_HLEN);
	skb_reset_network_header(skb);
	skb_put_data(skb, loop->content, sizeof(loop->content));
	skb->protocol = htons(ETH_P_LOOPBACK);
	err = dev_hard_header(skb, dev, ETH_P_LOOPBACK, dev->dev_addr,
			      dev->dev_addr, skb->len);
	if (err < 0)
		kfree_skb(skb);
	else
		err = dev_queue_xmit(skb);
	if (err)
		err = -EIO;
	else
		err = wait_for_completion_timeout(&loop->came, wait) != 0;

	/* Waits for whoever is in the function. */
	dev_remove_pack(&loop->type);
	kfree(loop);
	return err;
}

/* linux/pci.h */

int rmlx5_helper_pci_domain_nr(struct pci_bus *bus)
{
	return pci_domain_nr(bus);
}

int rmlx5_helper_pci_channel_offline(struct pci_dev *pdev)
{
	return pci_channel_offline(pdev);
}

struct pci_dev *rmlx5_helper_pci_upstream_bridge(struct pci_dev *dev)
{
	return pci_upstream_bridge(dev);
}

/* linux/skbuff.h */

void rmlx5_helper_skb_free(struct sk_buff *skb)
{
	dev_kfree_skb_any(skb);
}

/* Both give DMA_MAPPING_ERROR when the bytes cannot be mapped. */

static_assert(DMA_MAPPING_ERROR == U64_MAX);

dma_addr_t rmlx5_helper_skb_data_dma_map(struct device *dev, void *start,
					 unsigned int len)
{
	dma_addr_t addr = dma_map_single(dev, start, len, DMA_TO_DEVICE);

	return dma_mapping_error(dev, addr) ? DMA_MAPPING_ERROR : addr;
}

dma_addr_t rmlx5_helper_skb_frag_dma_map(struct device *dev,
					 const struct sk_buff *skb,
					 unsigned int n)
{
	const skb_frag_t *frag = &skb_shinfo(skb)->frags[n];
	dma_addr_t addr = skb_frag_dma_map(dev, frag, 0, skb_frag_size(frag),
					   DMA_TO_DEVICE);

	return dma_mapping_error(dev, addr) ? DMA_MAPPING_ERROR : addr;
}

bool rmlx5_helper_skb_may_pull(struct sk_buff *skb, unsigned int len)
{
	return pskb_may_pull(skb, len);
}

int rmlx5_helper_skb_linearize(struct sk_buff *skb)
{
	return skb_linearize(skb);
}

/* Bit 0: the checksum is to be computed; bit 1: there is a tag. */
unsigned int rmlx5_helper_skb_wants(const struct sk_buff *skb)
{
	return (skb->ip_summed == CHECKSUM_PARTIAL) |
	       skb_vlan_tag_present(skb) << 1;
}

/* Bytes of the headers that each segment of a GSO packet gets. */
unsigned int rmlx5_helper_skb_gso_headers(const struct sk_buff *skb)
{
	if (skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4)
		return skb_transport_offset(skb) + sizeof(struct udphdr);
	return skb_tcp_all_headers(skb);
}

/* Appends bytes to the linear part, if they fit. */
bool rmlx5_helper_skb_append(struct sk_buff *skb, const void *from,
			     unsigned int len)
{
	if (skb_is_nonlinear(skb) || len > skb_tailroom(skb))
		return false;
	skb_put_data(skb, from, len);
	return true;
}

/* Appends a piece of a page of a pool, if there is room for one more. */
bool rmlx5_helper_skb_add_page(struct sk_buff *skb, struct page *page,
			       unsigned int off, unsigned int len,
			       unsigned int truesize)
{
	if (skb_shinfo(skb)->nr_frags >= MAX_SKB_FRAGS)
		return false;
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, off, len,
			truesize);
	skb_mark_for_recycle(skb);
	return true;
}

/*
 * Takes the Ethernet header off a packet that dev received on a queue. kind is
 * an enum pkt_hash_types, PKT_HASH_TYPE_NONE for no hash; good says that its
 * checksums are. Whether it came for a group.
 */
bool rmlx5_helper_skb_received(struct sk_buff *skb, struct net_device *dev,
			       u16 queue, u32 hash, unsigned int kind,
			       bool good)
{
	skb_record_rx_queue(skb, queue);
	if (kind != PKT_HASH_TYPE_NONE)
		skb_set_hash(skb, hash, kind);
	if (good)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb->protocol = eth_type_trans(skb, dev);
	return skb->pkt_type == PACKET_MULTICAST;
}

/*
 * sum covers an IP datagram. It is of use only when nothing follows the
 * datagram; whether it was.
 */
bool rmlx5_helper_skb_csum_complete(struct sk_buff *skb, u16 sum)
{
	struct ipv6hdr v6_space;
	struct iphdr v4_space;

	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *v4;

		v4 = skb_header_pointer(skb, 0, sizeof(v4_space), &v4_space);
		if (!v4 || ntohs(v4->tot_len) != skb->len)
			return false;
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *v6;

		v6 = skb_header_pointer(skb, 0, sizeof(v6_space), &v6_space);
		if (!v6 ||
		    ntohs(v6->payload_len) + sizeof(*v6) != skb->len)
			return false;
	} else {
		return false;
	}
	skb->csum = csum_unfold((__force __sum16)htons(sum));
	skb->ip_summed = CHECKSUM_COMPLETE;
	return true;
}

/* linux/timekeeping.h */

u64 rmlx5_helper_ktime_get_ns(void)
{
	return ktime_get_ns();
}

/* linux/topology.h */

int rmlx5_helper_cpu_to_node(int cpu)
{
	return cpu_to_node(cpu);
}

/* linux/workqueue.h */

struct workqueue_struct *rmlx5_helper_alloc_workqueue(const char *name,
						      unsigned int flags,
						      int max_active)
{
	return alloc_workqueue("%s", flags, max_active, name);
}

/* net/devlink.h */

static const struct devlink_ops rmlx5_devlink_ops = {};

/* An instance whose private area is its port. */
int rmlx5_helper_devlink_port_new(struct device *dev, unsigned int number,
				  struct devlink_port **result)
{
	struct devlink_port_attrs attrs = {
		.flavour = DEVLINK_PORT_FLAVOUR_PHYSICAL,
		.phys.port_number = number,
	};
	struct devlink_port *port;
	struct devlink *devlink;
	int err;

	devlink = devlink_alloc(&rmlx5_devlink_ops, sizeof(*port), dev);
	if (!devlink)
		return -ENOMEM;
	port = devlink_priv(devlink);
	devlink_port_attrs_set(port, &attrs);
	err = devlink_port_register(devlink, port, number);
	if (err) {
		devlink_free(devlink);
		return err;
	}
	devlink_register(devlink);
	*result = port;
	return 0;
}

void rmlx5_helper_devlink_port_end(struct devlink_port *port)
{
	struct devlink *devlink = priv_to_devlink(port);

	devlink_unregister(devlink);
	devlink_port_unregister(port);
	devlink_free(devlink);
}

/* Before the device is registered. */
void rmlx5_helper_set_netdev_devlink_port(struct net_device *netdev,
					  struct devlink_port *port)
{
	SET_NETDEV_DEVLINK_PORT(netdev, port);
}

/* net/netlink.h */

struct nlattr *rmlx5_helper_nla_nest_start(struct sk_buff *skb, int attrtype)
{
	return nla_nest_start(skb, attrtype);
}

void rmlx5_helper_nla_nest_end(struct sk_buff *skb, struct nlattr *start)
{
	nla_nest_end(skb, start);
}

void rmlx5_helper_nla_nest_cancel(struct sk_buff *skb, struct nlattr *start)
{
	nla_nest_cancel(skb, start);
}

/* net/page_pool/helpers.h */

/* A pool of single pages that the device writes to. */
struct page_pool *rmlx5_helper_page_pool_new(struct net_device *netdev,
					     struct device *dev, int node,
					     unsigned int size,
					     unsigned int queue)
{
	struct page_pool_params params = {
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
		.pool_size = size,
		.nid = node,
		.dev = dev,
		.netdev = netdev,
		.queue_idx = queue,
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE,
	};

	return page_pool_create(&params);
}

void rmlx5_helper_page_pool_destroy(struct page_pool *pool)
{
	page_pool_destroy(pool);
}

/* size bytes of a page, a power of two; they begin at offset. */
struct page *rmlx5_helper_page_pool_alloc(struct page_pool *pool,
					  unsigned int *offset,
					  unsigned int size)
{
	if (size < PAGE_SIZE)
		return page_pool_dev_alloc_frag(pool, offset, size);
	*offset = 0;
	return page_pool_dev_alloc_pages(pool);
}

/*
 * A packet around received bytes in a piece of a page, which is the packet's
 * from then on: behind head bytes of room are len bytes of the frame, behind
 * those there is room for skb_shared_info. For a poll only.
 */
struct sk_buff *rmlx5_helper_skb_around(struct page_pool *pool,
					struct page *page, unsigned int offset,
					unsigned int size, unsigned int head,
					unsigned int len)
{
	void *start = page_address(page) + offset;
	struct sk_buff *skb;

	page_pool_dma_sync_for_cpu(pool, page, offset + head, len);
	net_prefetch(start + head);
	skb = napi_build_skb(start, size);
	if (unlikely(!skb))
		return NULL;
	skb_mark_for_recycle(skb);
	skb_reserve(skb, head);
	__skb_put(skb, len);
	return skb;
}

dma_addr_t rmlx5_helper_page_pool_dma_addr(struct page *page)
{
	return page_pool_get_dma_addr(page);
}

void rmlx5_helper_page_pool_put(struct page_pool *pool, struct page *page)
{
	page_pool_put_full_page(pool, page, false);
}

void rmlx5_helper_page_pool_sync_for_cpu(struct page_pool *pool,
					 struct page *page, u32 off, u32 len)
{
	page_pool_dma_sync_for_cpu(pool, page, off, len);
}

/* rdma/ib_umem.h, rdma/iter.h */

dma_addr_t rmlx5_helper_ib_umem_start_dma_addr(struct ib_umem *umem)
{
	return ib_umem_start_dma_addr(umem);
}

size_t rmlx5_helper_ib_umem_num_dma_blocks(struct ib_umem *umem,
					   unsigned long size)
{
	return ib_umem_num_dma_blocks(umem, size);
}

/* Whether the memory is that of the process that asks. */
bool rmlx5_helper_ib_umem_is_current(const struct ib_umem *umem)
{
	return umem->owning_mm == current->mm;
}

/*
 * Writes the addresses of all blocks of that size, big endian, with `low` in
 * their low bits, to a list with room for so many. How many blocks there are;
 * those that had no room were not written.
 */
size_t rmlx5_helper_ib_umem_write_blocks(struct ib_umem *umem,
					 unsigned long size, u64 low,
					 u8 *list, size_t room)
{
	struct ib_block_iter iter;
	size_t count = 0;

	rdma_umem_for_each_dma_block(umem, &iter, size) {
		if (count < room) {
			u64 address = rdma_block_iter_dma_address(&iter);

			put_unaligned_be64(address | low, list);
			list += sizeof(__be64);
		}
		count++;
	}
	return count;
}

/* rdma/ib_verbs.h */

u16 rmlx5_helper_rdma_get_udp_sport(u32 flow_label, u32 lqpn, u32 rqpn)
{
	return rdma_get_udp_sport(flow_label, lqpn, rqpn);
}

struct ib_device *rmlx5_helper_rdma_device_to_ibdev(struct device *device)
{
	return rdma_device_to_ibdev(device);
}

/*
 * Maps one page of device memory; called from the mmap of a user context. The
 * mapping holds a reference to entry, unless that is NULL.
 */
int rmlx5_helper_rdma_map_io_page(struct ib_ucontext *context,
				  struct vm_area_struct *vma,
				  unsigned long pfn, bool write_combining,
				  struct rdma_user_mmap_entry *entry)
{
	pgprot_t prot;

	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYEXEC);

	if (write_combining)
		prot = pgprot_writecombine(vma->vm_page_prot);
	else
		prot = pgprot_noncached(vma->vm_page_prot);
	return rdma_user_mmap_io(context, vma, pfn, PAGE_SIZE, prot, entry);
}

/* Memory that processes map: a page of zeros, and one page of it in an address space. */

void *rmlx5_helper_user_page(void)
{
	return (void *)get_zeroed_page(GFP_KERNEL);
}

int rmlx5_helper_vm_insert_user_page(struct vm_area_struct *vma, void *page)
{
	return vm_insert_page(vma, vma->vm_start, virt_to_page(page));
}

/* rdma/uverbs_ioctl.h */

/* Copies an attribute that user space sent, which has at most size bytes. */
int rmlx5_helper_uverbs_copy_in(void *to,
				const struct uverbs_attr_bundle *attrs,
				size_t id, size_t size)
{
	return _uverbs_copy_from(to, attrs, id, size);
}

/* The context of the file that a method was called on, or an error. */
struct ib_ucontext *
rmlx5_helper_uverbs_context(const struct uverbs_attr_bundle *attrs)
{
	return ib_uverbs_get_ucontext(attrs);
}

struct uverbs_attr_bundle *rmlx5_helper_udata_bundle(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata);
}

struct ib_udata *rmlx5_helper_bundle_udata(struct uverbs_attr_bundle *attrs)
{
	return &attrs->driver_udata;
}

/* The context that a call is made in; udata is that of a call. */
struct ib_ucontext *rmlx5_helper_udata_context(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

/* The object behind an attribute that must be there and is one. */
struct ib_uobject *
rmlx5_helper_uverbs_attr_get_uobject(const struct uverbs_attr_bundle *attrs,
				     u16 id)
{
	return uverbs_attr_get_uobject(attrs, id);
}

int rmlx5_helper_uverbs_attr_get_len(const struct uverbs_attr_bundle *attrs,
				     u16 id)
{
	return uverbs_attr_get_len(attrs, id);
}

bool rmlx5_helper_uverbs_attr_is_valid(const struct uverbs_attr_bundle *attrs,
				       u16 id)
{
	return uverbs_attr_is_valid(attrs, id);
}

/* Of an attribute that must be there: which of its choices it is. */
int rmlx5_helper_uverbs_attr_get_enum_id(const struct uverbs_attr_bundle *attrs,
					 u16 id)
{
	return uverbs_attr_get_enum_id(attrs, id);
}

/* Bytes of an attribute that the core has copied; NULL when it is not there. */
const void *
rmlx5_helper_uverbs_attr_copied(const struct uverbs_attr_bundle *attrs, u16 id)
{
	const void *bytes = uverbs_attr_get_alloced_ptr(attrs, id);

	return IS_ERR(bytes) ? NULL : bytes;
}

/* rdma/uverbs_std_types.h */

/* Gives a new rule to its object; qp, which it keeps, may be NULL. */
void rmlx5_helper_ib_set_flow(struct ib_uobject *uobject, struct ib_flow *flow,
			      struct ib_qp *qp, struct ib_device *device)
{
	ib_set_flow(uobject, flow, qp, device, NULL);
}
