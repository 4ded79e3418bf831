// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Points the crate at the layouts that `make prepare` generated.

use std::{env, path::Path, process};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let default = Path::new(&root).join("../../build/hw/mlx5_hw_bindings.rs");
    let bindings =
        env::var_os("MLX5_HW_BINDINGS").map_or(default, |path| Path::new(&path).to_path_buf());
    println!("cargo:rustc-check-cfg=cfg(MODULE)");
    println!("cargo:rerun-if-env-changed=MLX5_HW_BINDINGS");
    println!("cargo:rerun-if-changed={}", bindings.display());
    if !bindings.exists() {
        eprintln!(
            "{} is missing: run `make prepare` first",
            bindings.display()
        );
        process::exit(1);
    }
    println!("cargo:rustc-env=MLX5_HW_BINDINGS={}", bindings.display());
}
