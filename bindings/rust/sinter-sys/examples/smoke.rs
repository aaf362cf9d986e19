// Prepares a chain of two products for the built-in h200 model and prints its plan. Exit status 77: there is neither a
// cached kernel nor a run-time compiler.
use sinter_sys::*;
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

/// Runs a call; its status and message on failure.
fn call(f: impl FnOnce(*mut *mut sinter_error) -> sinter_status) -> Result<(), (sinter_status, String)> {
    let mut error = null_mut();
    let status = f(&mut error);
    if status == SINTER_OK {
        return Ok(());
    }
    // SAFETY: the error is ours to read and release.
    let message = unsafe { CStr::from_ptr(sinter_error_get_message(error)).to_string_lossy().into_owned() };
    unsafe { sinter_error_release(error) };
    Err((status, message))
}

unsafe fn input(chain: *mut sinter_chain, dims: [i64; 2], flags: u32) -> Result<sinter_value, (sinter_status, String)> {
    let options = sinter_input_options { flags, ..Default::default() };
    let mut value = 0;
    call(|e| sinter_chain_add_input(chain, SINTER_DTYPE_BF16, 2, dims.as_ptr(), &options, &mut value, e))?;
    Ok(value)
}

unsafe fn run() -> Result<(), (sinter_status, String)> {
    let target = CString::new("h200").unwrap();
    let options = sinter_context_options { target: target.as_ptr(), ..Default::default() };
    let (mut context, mut chain, mut plan) = (null_mut(), null_mut(), null_mut());
    call(|e| sinter_context_create(&options, &mut context, e))?;
    let mut tuning = [1u8; 32];
    call(|e| sinter_context_get_tuning_digest(context, tuning.as_mut_ptr(), e))?;
    assert_eq!(tuning, [0; 32]);
    let missing = CString::new("/no/such/set").unwrap();
    let tuned = sinter_context_options { target: target.as_ptr(), tuning_set: missing.as_ptr(), ..Default::default() };
    let refused = call(|e| sinter_context_create(&tuned, &mut null_mut(), e)).unwrap_err();
    assert!(refused.1.contains("tuning set /no/such/set"), "{}", refused.1);
    call(|e| sinter_chain_create(&mut chain, e))?;
    let a = input(chain, [SINTER_DIM_M, 64], 0)?;
    let w1 = input(chain, [256, 64], SINTER_INPUT_CONSTANT)?;
    let w2 = input(chain, [64, 256], SINTER_INPUT_CONSTANT)?;
    let mut y = 0;
    let relu = sinter_gemm_chain_options { activation: SINTER_ACTIVATION_RELU, ..Default::default() };
    call(|e| sinter_chain_add_gemm_chain(chain, a, w1, w2, &relu, &mut y, e))?;
    let refused = call(|e| sinter_chain_add_gemm_chain(chain, a, w1, 99, &relu, &mut y, e)).unwrap_err();
    assert_eq!(refused.0, SINTER_INVALID_ARGUMENT);
    assert!(refused.1.contains("w2 is value 99"), "{}", refused.1);
    call(|e| sinter_chain_add_output(chain, y, null(), e))?;
    call(|e| sinter_chain_finish(chain, e))?;
    call(|e| sinter_prepare(context, chain, 20, null(), &mut plan, e))?;
    let (mut stats, list) = (sinter_stats::default(), CString::new("12.9, 8f3a90c1d2").unwrap());
    call(|e| sinter_context_deny_toolchains(context, list.as_ptr(), e))?;
    assert!(call(|e| sinter_context_deny_toolchains(context, missing.as_ptr(), e)).is_err());
    call(|e| sinter_context_get_stats(context, &mut stats, e))?;
    assert_eq!((stats.prepares, stats.modules_loaded), (1, 0));
    sinter_context_release(context); // release order never matters
    sinter_chain_release(chain);
    assert_eq!(sinter_plan_get_bucket(plan), 32);
    let mut size = 0;
    call(|e| sinter_plan_explain(plan, 0, null_mut(), &mut size, e))?;
    let mut text = vec![0u8; size];
    call(|e| sinter_plan_explain(plan, size, text.as_mut_ptr().cast(), &mut size, e))?;
    println!("{}", CStr::from_bytes_with_nul(&text).unwrap().to_str().unwrap());
    sinter_plan_release(plan);
    Ok(())
}

fn main() {
    assert!(unsafe { sinter_version() } >= 100);
    if let Err((status, message)) = unsafe { run() } {
        eprintln!("{status}: {message}");
        std::process::exit(if status == SINTER_UNAVAILABLE { 77 } else { 1 });
    }
}
