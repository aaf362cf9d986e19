//! A chain over two GPUs of this machine, whose ranks are threads. Columns are gathered and summed; each rank outputs its part
//! of the sum. Needs two Hopper GPUs; exits 77 without.
#[path = "../gated_ffn/cuda.rs"]
mod cuda;

use sinter::*;

const ROWS: i64 = 100;
const K: i64 = 512;
const RANKS: i32 = 2;

/// The columns of all ranks, and this rank's columns of their sum.
fn describe() -> Result<Chain> {
    let b = ChainBuilder::new();
    let x = b.input(DType::BF16, &[M, K]);
    b.output(x.all_gather(1, RANKS));
    b.output(x.all_reduce(RANKS).reduce_scatter(1, RANKS));
    b.finish()
}

/// Small integers, of which sums are exact.
fn x_of(rank: i64, row: i64, column: i64) -> f32 {
    ((rank * 5 + row * 3 + column) % 7) as f32
}

fn bf16(number: f32) -> u16 {
    (number.to_bits() >> 16) as u16
}

/// Prepares, binds and launches one rank, and says whether its outputs are right for each number of rows.
fn run(rank: i64, device: &cuda::Device, context: &Context, group: &Group) -> Result<bool> {
    let plan = context.prepare(&describe()?, ROWS, &PrepareOptions::default())?;
    let x: Vec<u16> = (0..ROWS * K).map(|i| bf16(x_of(rank, i / K, i % K))).collect();
    let ranks = i64::from(RANKS);
    let (input, all, part) = (device.alloc(2 * ROWS as u64 * K as u64), device.alloc(2 * (ROWS * K * ranks) as u64),
                              device.alloc(2 * (ROWS * K / ranks) as u64));
    input.upload(&x);
    let workspace = device.alloc(plan.workspace_size());
    // SAFETY: the device, the buffers and the workspace live until the end of this function, and every launch is waited for;
    // both ranks launch the same.
    let (stream, binding) = unsafe {
        let stream = Stream::from_raw(device.stream);
        plan.init_workspace(workspace.address, plan.workspace_size(), stream)?;
        (stream, plan.bind_group(&[input.address, all.address, part.address], workspace.address, group)?)
    };
    let mut right = true;
    for m in [ROWS, 17, 1] {
        // SAFETY: as above.
        unsafe { binding.launch(stream, m, Launch::NONE)? };
        let (mut gathered, mut summed) = (vec![0; (m * K * ranks) as usize], vec![0; (m * K / ranks) as usize]);
        all.download(&mut gathered);
        part.download(&mut summed);
        group.status()?; // after a synchronisation
        right &= gathered.iter().zip(0..).all(|(got, i)| {
            let (row, column) = (i / (K * ranks), i % (K * ranks));
            *got == bf16(x_of(column / K, row, column % K))
        });
        // Each rank has the sum over ranks, of which the scatter makes a sum again.
        right &= summed.iter().zip(0..).all(|(got, i)| {
            let (row, column) = (i / (K / ranks), i % (K / ranks) + rank * (K / ranks));
            *got == bf16(2.0 * (0..ranks).map(|r| x_of(r, row, column)).sum::<f32>())
        });
    }
    println!("rank {rank}: {}", if right { "right" } else { "wrong" });
    Ok(right)
}

/// `None`: it needs two GPUs.
fn both() -> Result<Option<bool>> {
    for rank in 0..RANKS {
        if cuda::Device::open(rank).is_none() {
            return Ok(None);
        }
    }
    let contexts = [Context::open(0)?, Context::open(1)?];
    let groups = Group::local(&[&contexts[0], &contexts[1]], &GroupOptions::default())?;
    let results: Vec<Result<bool>> = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..RANKS as usize)
            .map(|rank| {
                let (context, group) = (&contexts[rank], &groups[rank]);
                scope.spawn(move || {
                    let device = cuda::Device::open(rank as i32).expect("it was there");
                    run(rank as i64, &device, context, group)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank panicked")).collect()
    });
    let mut right = true;
    for result in results {
        right &= result?;
    }
    Ok(Some(right))
}

fn main() {
    std::process::exit(match both() {
        Ok(Some(right)) => i32::from(!right),
        Ok(None) => {
            println!("skipped: it needs two GPUs");
            77
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    });
}
