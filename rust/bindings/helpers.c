// SPDX-License-Identifier: GPL-2.0
/*
 * Static inline functions and macros of C headers, as functions that Rust can
 * call. bindgen reads this file too; the prefix rmlx5_helper_ is dropped on the
 * Rust side. Sorted by header.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/interrupt.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

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

/* linux/dma-mapping.h */

int rmlx5_helper_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

unsigned int rmlx5_helper_dma_get_max_seg_size(struct device *dev)
{
	return dma_get_max_seg_size(dev);
}

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

/* linux/interrupt.h */

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

/* rdma/ib_verbs.h */

struct ib_device *rmlx5_helper_rdma_device_to_ibdev(struct device *device)
{
	return rdma_device_to_ibdev(device);
}

/* Maps one page of device memory; called from the mmap of a user context. */
int rmlx5_helper_rdma_map_io_page(struct ib_ucontext *context,
				  struct vm_area_struct *vma,
				  unsigned long pfn, bool write_combining)
{
	pgprot_t prot;

	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYEXEC);

	if (write_combining)
		prot = pgprot_writecombine(vma->vm_page_prot);
	else
		prot = pgprot_noncached(vma->vm_page_prot);
	return rdma_user_mmap_io(context, vma, pfn, PAGE_SIZE, prot, NULL);
}
