// KEY.sum of each sample's float32 outputs: rustc --crate-type cdylib -O sums.rs, and --processor so:./libsums.so. No crate is needed.
use std::os::raw::{c_char, c_void};

// offramp.h and offramp_processor.h, as far as they are used here.
#[repr(C)]
pub struct Host(usize, [usize; 2], extern "C" fn(*const Host, u32, *const u8, *const u8, usize) -> i32); // commit_file
#[repr(C)]
struct Sample(u64, u64, *const c_char, usize, u32, u32); // item, batch, key, its bytes, row, empty
#[repr(C)]
struct Tensor(usize, *const c_char, u8, u8, u16, u32, *const i64, *const i64, *const f32); // type: code, bits, lanes; dims, shape
#[repr(C)]
pub struct Slab(usize, usize, usize, *const u8, u32, u32, *const Tensor); // a sample's size, a tensor's, samples, their count
type Create = extern "C" fn(*const Host, *const c_void, *mut *mut c_void) -> i32;
type Process = extern "C" fn(*mut c_void, *const Host, *const Slab) -> i32;
#[repr(C)]
pub struct Processor(usize, Create, Process, Option<extern "C" fn(*mut c_void)>);
static PROCESSOR: Processor = Processor(std::mem::size_of::<Processor>(), create, process, None);

#[no_mangle]
pub extern "C" fn offramp_processor_v1() -> &'static Processor { &PROCESSOR }
extern "C" fn create(_: *const Host, _: *const c_void, _: *mut *mut c_void) -> i32 { 0 }

extern "C" fn process(_: *mut c_void, host: *const Host, slab: *const Slab) -> i32 {
    let (slab, tensor) = unsafe { (&*slab, &*(*slab).6) };
    if (tensor.2, tensor.3) != (2, 32) {
        return 6; // OFFRAMP_REJECTED: no consumer will do better
    }
    let count: usize = (1..tensor.5 as usize).map(|dim| unsafe { *tensor.6.add(dim) as usize }).product();
    for index in 0..slab.4 {
        let sample = unsafe { &*(slab.3.add(index as usize * slab.1) as *const Sample) };
        let values = unsafe { std::slice::from_raw_parts(tensor.8.add(sample.4 as usize * count), count) };
        let text = format!("{}\n", values.iter().map(|&value| f64::from(value)).sum::<f64>());
        let commit = unsafe { (*host).2 };
        match if sample.5 == 0 { commit(host, index, b".sum\0".as_ptr(), text.as_ptr(), text.len()) } else { 0 } {
            0 => continue,
            code => return code,
        }
    }
    0
}
