//! Lets the binary find an OTF2 library outside the system's directories: `sudo` drops
//! `LD_LIBRARY_PATH`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DEP_OTF2_RPATH");
    if let Ok(directory) = std::env::var("DEP_OTF2_RPATH") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{directory}");
    }
}
