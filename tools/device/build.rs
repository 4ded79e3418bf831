// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns the generated layouts (`mlx5_ifc_*_bits`) into tables that can be looked at while the
//! model runs: names, offsets and widths, for the reserved-bit masks and for the trace.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use syn::{Expr, Fields, GenericArgument, Item, Lit, PathArguments, Type};

/// What a member is made of.
enum Shape {
    /// Plain bits.
    Bits(u32),
    /// Another layout.
    Layout(String),
    /// Several of one shape.
    Array(Box<Shape>, u32),
    /// A list behind the fixed part.
    List(Box<Shape>),
}

struct Member {
    name: String,
    shape: Shape,
}

struct Layout {
    union: bool,
    public: bool,
    members: Vec<Member>,
}

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let default = Path::new(&root).join("../../build/hw/mlx5_hw_bindings.rs");
    let bindings = env::var_os("MLX5_HW_BINDINGS").map_or(default, PathBuf::from);
    println!("cargo:rerun-if-env-changed=MLX5_HW_BINDINGS");
    println!("cargo:rerun-if-changed={}", bindings.display());
    println!("cargo:rerun-if-changed=build.rs");
    let text = fs::read_to_string(&bindings).unwrap_or_else(|error| {
        panic!("{}: {error}: run `make prepare` first", bindings.display())
    });
    let file = syn::parse_file(&text).expect("bindgen output is Rust");
    let layouts = collect(&file);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("layouts.rs");
    fs::write(out, emit(&layouts)).expect("OUT_DIR is writable");
}

/// Short name of a layout.
fn short(name: &str) -> Option<&str> {
    let name = name.strip_prefix("mlx5_ifc_")?;
    Some(name.strip_suffix("_bits").unwrap_or(name))
}

/// Whether [`mlx5_hw::ifc`] has the layout: those have a name of the usual form. The others are
/// only used inside of layouts: anonymous members (`X_bits__bindgen_ty_1`) and a union or two.
fn is_public(name: &str) -> bool {
    name.ends_with("_bits")
}

/// How bindgen writes the members of a union that cannot be one in Rust.
const UNION_FIELD: &str = "__BindgenUnionField";

/// The storage of such a union: no member of the header.
const UNION_STORAGE: &str = "bindgen_union_field";

fn collect(file: &syn::File) -> BTreeMap<String, Layout> {
    let mut layouts = BTreeMap::new();
    for item in &file.items {
        let (ident, fields, union) = match item {
            Item::Struct(item) => match &item.fields {
                Fields::Named(fields) => (&item.ident, fields, has_storage(fields)),
                _ => continue,
            },
            Item::Union(item) => (&item.ident, &item.fields, true),
            _ => continue,
        };
        let ident = ident.to_string();
        let Some(name) = short(&ident) else { continue };
        // A few have members that are not bits (pointers, plain bytes): no command uses them.
        let members: Option<Vec<Member>> = fields
            .named
            .iter()
            .filter(|field| !is_storage(field))
            .map(|field| {
                Some(Member {
                    name: field.ident.as_ref()?.to_string(),
                    shape: shape(&field.ty)?,
                })
            })
            .collect();
        if let Some(members) = members {
            let public = is_public(&ident);
            layouts.insert(
                name.to_owned(),
                Layout {
                    union,
                    public,
                    members,
                },
            );
        }
    }
    // A layout that contains one of those is of no use either.
    loop {
        let bad: Vec<String> = layouts
            .iter()
            .filter(|(_, layout)| layout.members.iter().any(|m| !known(&m.shape, &layouts)))
            .map(|(name, _)| name.clone())
            .collect();
        if bad.is_empty() {
            return layouts;
        }
        for name in bad {
            layouts.remove(&name);
        }
    }
}

fn is_storage(field: &syn::Field) -> bool {
    field
        .ident
        .as_ref()
        .is_some_and(|ident| ident == UNION_STORAGE)
}

fn has_storage(fields: &syn::FieldsNamed) -> bool {
    fields.named.iter().any(is_storage)
}

fn known(shape: &Shape, layouts: &BTreeMap<String, Layout>) -> bool {
    match shape {
        Shape::Bits(_) => true,
        Shape::Layout(name) => layouts.contains_key(name),
        Shape::Array(inner, _) | Shape::List(inner) => known(inner, layouts),
    }
}

/// One array byte is one bit; an array of anything else is an array.
fn shape(ty: &Type) -> Option<Shape> {
    match ty {
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let ident = last.ident.to_string();
            if let PathArguments::AngleBracketed(arguments) = &last.arguments {
                let GenericArgument::Type(inner) = arguments.args.first()? else {
                    return None;
                };
                return match ident.as_str() {
                    "__IncompleteArrayField" => Some(Shape::List(Box::new(shape(inner)?))),
                    UNION_FIELD => shape(inner),
                    _ => None,
                };
            }
            short(&ident).map(|name| Shape::Layout(name.to_owned()))
        }
        Type::Array(array) => {
            let Expr::Lit(literal) = &array.len else {
                return None;
            };
            let Lit::Int(length) = &literal.lit else {
                return None;
            };
            let length: u32 = length.base10_parse().ok()?;
            if let Type::Path(path) = &*array.elem {
                let ident = path.path.segments.last()?.ident.to_string();
                if ident == "u8_" || ident == "u8" {
                    return Some(Shape::Bits(length));
                }
            }
            Some(Shape::Array(Box::new(shape(&array.elem)?), length))
        }
        _ => None,
    }
}

fn width(shape: &Shape, layouts: &BTreeMap<String, Layout>) -> u32 {
    match shape {
        Shape::Bits(bits) => *bits,
        Shape::Array(inner, count) => width(inner, layouts) * count,
        Shape::List(_) => 0,
        Shape::Layout(name) => bits(&layouts[name], layouts),
    }
}

fn bits(layout: &Layout, layouts: &BTreeMap<String, Layout>) -> u32 {
    let widths = layout.members.iter().map(|m| width(&m.shape, layouts));
    if layout.union {
        widths.max().unwrap_or(0)
    } else {
        widths.sum()
    }
}

fn emit_shape(shape: &Shape) -> String {
    match shape {
        Shape::Bits(bits) => format!("Shape::Bits({bits})"),
        Shape::Layout(name) => format!("Shape::Layout(&LAYOUT_{name})"),
        Shape::Array(inner, count) => format!("Shape::Array(&{}, {count})", emit_shape(inner)),
        Shape::List(inner) => format!("Shape::List(&{})", emit_shape(inner)),
    }
}

fn emit(layouts: &BTreeMap<String, Layout>) -> String {
    let mut out = String::new();
    for (name, layout) in layouts {
        let mut at = 0;
        let mut members = String::new();
        for member in &layout.members {
            let width = width(&member.shape, layouts);
            let reserved = member.name.starts_with("reserved_");
            write!(
                members,
                "Member {{ name: {:?}, at: {at}, reserved: {reserved}, shape: {} }},",
                member.name.trim_end_matches('_'),
                emit_shape(&member.shape)
            )
            .expect("writing to a string");
            if !layout.union {
                at += width;
            }
        }
        writeln!(
            out,
            "#[allow(non_upper_case_globals)]\n\
             pub(crate) static LAYOUT_{name}: Layout = Layout {{ name: {name:?}, bits: {}, union: {}, members: &[{members}] }};",
            bits(layout, layouts),
            layout.union,
        )
        .expect("writing to a string");
        if layout.public {
            writeln!(
                out,
                "impl Described for mlx5_hw::ifc::{name} {{ const LAYOUT: &'static Layout = &LAYOUT_{name}; }}"
            )
            .expect("writing to a string");
        }
    }
    out
}
