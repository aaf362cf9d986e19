// Package cuda is as much of the CUDA driver as a program needs that has nothing else to allocate device memory and
// streams with: libcuda is opened at run time. It works on a device's primary context, which package sinter uses too, and
// leaves no context current.
package cuda

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"unsafe"
)

// Unavailable is a machine without a driver or a GPU.
type Unavailable struct{ Reason string }

func (e *Unavailable) Error() string { return "cuda: no driver or no GPU: " + e.Reason }

// Error is a call of the driver that failed.
type Error struct {
	Call   string
	Result int // a CUresult
}

func (e *Error) Error() string {
	return fmt.Sprintf("cuda: %s: %s (%d)", e.Call, C.GoString(C.sinter_go_cuda_text(C.int(e.Result))), e.Result)
}

func check(call string, result C.int) error {
	if result == 0 {
		return nil
	}
	return &Error{call, int(result)}
}

// Device is a GPU's primary context. Safe for concurrent use until it is closed.
type Device struct {
	device  C.int
	context C.uintptr_t
}

// Open retains the primary context of GPU `ordinal`. The variable SINTER_LIBCUDA names another libcuda, as it does for the
// library.
func Open(ordinal int) (*Device, error) {
	if ordinal < 0 || ordinal > math.MaxInt32 {
		return nil, fmt.Errorf("cuda: ordinal is %d, must be in [0, %d]", ordinal, math.MaxInt32)
	}
	path := C.CString(os.Getenv("SINTER_LIBCUDA"))
	defer C.free(unsafe.Pointer(path))
	if reason := C.sinter_go_cuda_open(path); reason != nil {
		return nil, &Unavailable{C.GoString(reason)}
	}
	var d Device
	if err := check("opening the GPU", C.sinter_go_cuda_retain(C.int(ordinal), &d.device, &d.context)); err != nil {
		return nil, err
	}
	return &d, nil
}

// Close releases the primary context, once, after all that was made of it.
func (d *Device) Close() error {
	if d.context == 0 {
		return nil
	}
	d.context = 0
	return check("cuDevicePrimaryCtxRelease", C.sinter_go_cuda_release(d.device))
}

// Alloc gives device memory, aligned to 256 bytes; address 0 for no bytes.
func (d *Device) Alloc(bytes uint64) (address uint64, err error) {
	if bytes == 0 {
		return 0, nil
	}
	var made C.uint64_t
	err = check("cuMemAlloc", C.sinter_go_cuda_alloc(d.context, C.size_t(bytes), &made))
	return uint64(made), err
}

// Free gives memory back; 0 is nothing.
func (d *Device) Free(address uint64) error {
	if address == 0 {
		return nil
	}
	return check("cuMemFree", C.sinter_go_cuda_free(d.context, C.uint64_t(address)))
}

// NewStream is a stream that does not wait for the legacy default stream.
func (d *Device) NewStream() (stream uintptr, err error) {
	var made C.uintptr_t
	err = check("cuStreamCreate", C.sinter_go_cuda_new_stream(d.context, &made))
	return uintptr(made), err
}

// DestroyStream gives a stream back.
func (d *Device) DestroyStream(stream uintptr) error {
	return check("cuStreamDestroy", C.sinter_go_cuda_destroy_stream(d.context, C.uintptr_t(stream)))
}

// Synchronize waits for all that the stream does.
func (d *Device) Synchronize(stream uintptr) error {
	return check("cuStreamSynchronize", C.sinter_go_cuda_synchronize(d.context, C.uintptr_t(stream)))
}

// Upload copies to the device, after the work already in the stream, and returns once the copy is done.
func (d *Device) Upload(to uint64, from []byte, stream uintptr) error {
	if len(from) == 0 {
		return nil
	}
	defer runtime.KeepAlive(from)
	return check("cuMemcpyHtoDAsync", C.sinter_go_cuda_upload(d.context, C.uint64_t(to), unsafe.Pointer(&from[0]),
		C.size_t(len(from)), C.uintptr_t(stream)))
}

// Download copies from the device, after the work already in the stream, and returns once the copy is done.
func (d *Device) Download(to []byte, from uint64, stream uintptr) error {
	if len(to) == 0 {
		return nil
	}
	defer runtime.KeepAlive(to)
	return check("cuMemcpyDtoHAsync", C.sinter_go_cuda_download(d.context, unsafe.Pointer(&to[0]), C.uint64_t(from),
		C.size_t(len(to)), C.uintptr_t(stream)))
}
