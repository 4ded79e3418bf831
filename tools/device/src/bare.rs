// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Objects that are a number and nothing more: others refer to them, they hold no state.

/// Defines the object `$name` of `Hca::$table` with its pair of commands. `$field` carries the
/// number in the output of `$alloc_out` and in the input of `$dealloc_in`; each costs `$bytes` of
/// the card's memory.
#[macro_export]
#[doc(hidden)]
macro_rules! bare_object {
    (
        $(#[$doc:meta])*
        $name:ident in $table:ident, $bytes:literal bytes,
        $alloc:ident: $alloc_op:ident($alloc_in:ident, $alloc_out:ident),
        $dealloc:ident: $dealloc_op:ident($dealloc_in:ident, $dealloc_out:ident),
        $field:ident
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl $crate::table::Object for $name {
            const KIND: $crate::table::Kind = $crate::table::Kind::$name;

            fn footprint(&self) -> u64 {
                $bytes
            }
        }

        #[doc = concat!("Gives a number to a new [`", stringify!($name), "`].")]
        pub struct $alloc;

        impl $crate::cmd::Command for $alloc {
            const OPCODE: u32 = mlx5_hw::raw::$alloc_op;
            type In = mlx5_hw::ifc::$alloc_in;
            type Out = mlx5_hw::ifc::$alloc_out;

            fn footprint(_input: mlx5_hw::field::Ref<'_, Self::In>) -> u64 {
                $bytes
            }

            fn run(
                hca: &mut $crate::hca::Hca,
                _input: mlx5_hw::field::Ref<'_, Self::In>,
                output: &mut mlx5_hw::field::Mut<'_, Self::Out>,
            ) -> Result<(), $crate::cmd::Refused> {
                let number = hca.$table.insert($name)?;
                output.set(mlx5_hw::field!($alloc_out, $field), number.into());
                Ok(())
            }
        }

        #[doc = concat!("Takes the number of a [`", stringify!($name), "`] back; refused while others refer to it.")]
        pub struct $dealloc;

        impl $crate::cmd::Command for $dealloc {
            const OPCODE: u32 = mlx5_hw::raw::$dealloc_op;
            type In = mlx5_hw::ifc::$dealloc_in;
            type Out = mlx5_hw::ifc::$dealloc_out;

            fn run(
                hca: &mut $crate::hca::Hca,
                input: mlx5_hw::field::Ref<'_, Self::In>,
                _output: &mut mlx5_hw::field::Mut<'_, Self::Out>,
            ) -> Result<(), $crate::cmd::Refused> {
                hca.$table.remove(input.get32(mlx5_hw::field!($dealloc_in, $field)))?;
                Ok(())
            }
        }
    };
}
