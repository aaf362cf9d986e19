//! A gated FFN from description to a checked result: Qwen3-0.6B's, for up to 128 rows, on a stream of the caller. Needs a
//! Hopper GPU; exits 77 without one.
mod cuda;

use sinter::sys::experimental::{sinter_x_check, sinter_x_reference_check};
use sinter::*;
use std::ptr::null_mut;

const ROWS: i64 = 128;
const K: i64 = 1024;
const N: i64 = 3072;
const L: i64 = 1024;
/// A bf16 that no kernel writes: a NaN.
const UNTOUCHED: u16 = 0xffff;

/// y = (silu(x Wg) * (x Wu)) Wd, the weights as nn.Linear stores them: [out, in].
fn describe() -> Result<Chain> {
    let b = ChainBuilder::new();
    let x = b.input(DType::BF16, &[M, K]);
    let (gate, up) = (b.constant(DType::BF16, &[N, K]), b.constant(DType::BF16, &[N, K]));
    let down = b.constant(DType::BF16, &[L, N]);
    b.output(x.gated_ffn(gate, up, down, Activation::SILU, &GatedFfnOptions::default()));
    b.finish()
}

/// bf16 numbers in (-scale, scale), the same for the same seed.
fn random(count: i64, scale: f32, mut seed: u32) -> Vec<u16> {
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = scale * ((seed >> 8) as f32 / 8_388_608.0 - 1.0);
        (number.to_bits() >> 16) as u16
    };
    (0..count).map(|_| next()).collect()
}

/// Whether the first `m` rows of y are the reference's, and the rest is as it was.
fn right(chain: &Chain, m: i64, inputs: &[Vec<u16>], y: &[u16]) -> bool {
    let (ins, outs) = (inputs.iter().map(|input| input.as_ptr().cast()).collect::<Vec<_>>(), [y.as_ptr().cast()]);
    let mut check = sinter_x_check::default();
    // SAFETY: the buffers are as large as the chain says.
    let status = unsafe {
        sinter_x_reference_check(chain.as_raw(), m, ins.len() as u32, ins.as_ptr(), 1, outs.as_ptr(), 0, 0, &mut check,
                                 null_mut())
    };
    assert_eq!(Status(status), Status::OK);
    let touched = y[(m * L) as usize..].iter().filter(|value| **value != UNTOUCHED).count();
    let (error, bound) = (check.relative, check.relative_bound);
    println!("m = {m}: relative error {error:.1e}, bound {bound:.1e}; {touched} elements written behind it");
    check.within != 0 && touched == 0
}

fn run(device: &cuda::Device) -> Result<bool> {
    let context = Context::open(0)?;
    let chain = describe()?;
    let plan = context.prepare(&chain, ROWS, &PrepareOptions::default())?; // cache, or search and compile
    let weights = [random(N * K, 0.05, 2), random(N * K, 0.05, 3), random(L * N, 0.05, 4)];
    let inputs: Vec<Vec<u16>> = std::iter::once(random(ROWS * K, 1.0, 1)).chain(weights).collect();
    let mut buffers = Vec::new();
    for index in 0..plan.buffer_count() {
        buffers.push(device.alloc(chain.buffer(index, ROWS)?.bytes));
    }
    for (buffer, input) in buffers.iter().zip(&inputs) {
        buffer.upload(input);
    }
    let workspace = device.alloc(plan.workspace_size());
    let addresses: Vec<DevicePtr> = buffers.iter().map(|buffer| buffer.address).collect();
    // SAFETY: the device outlives this function.
    let stream = unsafe { Stream::from_raw(device.stream) };
    // SAFETY: the buffers and the workspace live until the end of this function, and every launch is waited for.
    let binding = unsafe {
        plan.init_workspace(workspace.address, plan.workspace_size(), stream)?;
        plan.bind(&addresses, workspace.address)?
    };
    let mut all_right = true;
    for m in [ROWS, 77, 1] {
        let mut y = vec![UNTOUCHED; (ROWS * L) as usize];
        buffers[inputs.len()].upload(&y);
        // SAFETY: as above.
        unsafe { binding.launch(stream, m, Launch::NONE)? };
        buffers[inputs.len()].download(&mut y);
        all_right = right(&chain, m, &inputs, &y) && all_right;
    }
    Ok(all_right)
}

/// The exit status.
fn status() -> i32 {
    let device = match cuda::Device::open(0) {
        Some(device) => device,
        None => {
            println!("skipped: no GPU");
            return 77;
        }
    };
    match run(&device) {
        Ok(right) => i32::from(!right),
        Err(error) if error.status() == Status::FAILED_PRECONDITION => {
            println!("skipped: {error}"); // a GPU, but no Hopper
            77
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn main() {
    std::process::exit(status());
}
