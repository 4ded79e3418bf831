// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express configuration space, capabilities, AER and MSI-X of an emulated endpoint.
