package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"math"
	"unsafe"
)

// NoM is what a launch of a chain without M takes for m.
const NoM int64 = math.MinInt64

// LaunchPDL lets the first kernel start before the kernel ahead on the stream has ended.
const LaunchPDL uint32 = C.SINTER_LAUNCH_PDL

// DevicePtr is a device address, aligned to 16 bytes. The memory is the caller's: it must stay allocated until the last
// launch that uses it has ended, also one of a graph.
type DevicePtr uint64

// Stream is the caller's CUstream or cudaStream_t; 0 is the legacy default stream.
type Stream uintptr

// Plan is a chain prepared for a bucket of M, kernels loaded. Safe for concurrent use.
type Plan struct{ h *handle }

func newPlan(p *C.sinter_plan) *Plan {
	return &Plan{newHandle("the plan", unsafe.Pointer(p), func(p unsafe.Pointer) {
		C.sinter_plan_release((*C.sinter_plan)(p))
	})}
}

// acquire is for a plan that is an argument.
func (p *Plan) acquire() (unsafe.Pointer, error) {
	if p == nil {
		return nil, invalid("plan is nil")
	}
	return p.h.acquire()
}

// Close gives the plan back; bindings live on.
func (p *Plan) Close() { p.h.close() }

// Digest is equal wherever chain, bucket, device model, library version, tuning set and options are.
func (p *Plan) Digest() (digest Digest, err error) {
	plan, err := p.h.acquire()
	if err != nil {
		return digest, err
	}
	defer p.h.done()
	var failed *C.sinter_error
	err = check(C.sinter_plan_get_digest((*C.sinter_plan)(plan), (*C.uint8_t)(&digest[0]), &failed), &failed)
	return digest, err
}

// Bucket is the largest m that one pass serves; 0 once closed.
func (p *Plan) Bucket() int64 {
	plan, err := p.h.acquire()
	if err != nil {
		return 0
	}
	defer p.h.done()
	return int64(C.sinter_plan_get_bucket((*C.sinter_plan)(plan)))
}

// MaxM is the largest m that a launch takes, in one pass or several; 0 of a chain without M, and once closed.
func (p *Plan) MaxM() int64 {
	plan, err := p.h.acquire()
	if err != nil {
		return 0
	}
	defer p.h.done()
	return int64(C.sinter_plan_get_max_m((*C.sinter_plan)(plan)))
}

// BufferCount is how many buffers a bind takes; 0 once closed.
func (p *Plan) BufferCount() int {
	plan, err := p.h.acquire()
	if err != nil {
		return 0
	}
	defer p.h.done()
	return int(C.sinter_plan_get_buffer_count((*C.sinter_plan)(plan)))
}

// WorkspaceSize is in bytes and may be 0; 0 once closed.
func (p *Plan) WorkspaceSize() uint64 {
	plan, err := p.h.acquire()
	if err != nil {
		return 0
	}
	defer p.h.done()
	return uint64(C.sinter_plan_get_workspace_size((*C.sinter_plan)(plan)))
}

// InitWorkspace enqueues the zeroing of a workspace, once before its first use. A workspace serves one plan on one stream
// at a time.
func (p *Plan) InitWorkspace(workspace DevicePtr, bytes uint64, stream Stream) error {
	plan, err := p.h.acquire()
	if err != nil {
		return err
	}
	defer p.h.done()
	result := C.sinter_go_init_workspace(plan, C.sinter_device_ptr(workspace), C.uint64_t(bytes),
		C.uintptr_t(stream))
	return outcome(result)
}

// Explain is one screen of text: the plan, and the best of what lost and why.
func (p *Plan) Explain() (string, error) {
	plan, err := p.h.acquire()
	if err != nil {
		return "", err
	}
	defer p.h.done()
	return longText(func(capacity C.size_t, text *C.char, size *C.size_t, failed **C.sinter_error) C.sinter_status {
		return C.sinter_plan_explain((*C.sinter_plan)(plan), capacity, text, size, failed)
	})
}

// String is a summary of Explain in a few lines: schedules, times, where the kernels came from. If the plan is closed, it is the
// error. It uses the experimental part of the ABI.
func (p *Plan) String() string {
	if p == nil {
		return "no plan"
	}
	plan, err := p.h.acquire()
	if err != nil {
		return err.Error()
	}
	defer p.h.done()
	var text *C.sinter_x_text
	var failed *C.sinter_error
	if err := check(C.sinter_x_plan_summary((*C.sinter_plan)(plan), &text, &failed), &failed); err != nil {
		return err.Error()
	}
	defer C.sinter_x_text_release(text)
	return C.GoString(C.sinter_x_text_get(text))
}

// Bind checks the buffers' alignment and encodes tensor maps once. buffers: the chain's inputs in the order of their adds,
// then its outputs. workspace may be 0 when its size is.
func (p *Plan) Bind(buffers []DevicePtr, workspace DevicePtr) (*Binding, error) {
	plan, err := p.h.acquire()
	if err != nil {
		return nil, err
	}
	defer p.h.done()
	var binding *C.sinter_binding
	var failed *C.sinter_error
	status := C.sinter_plan_bind((*C.sinter_plan)(plan), C.uint32_t(len(buffers)),
		first[DevicePtr, C.sinter_device_ptr](buffers), C.sinter_device_ptr(workspace), &binding, &failed)
	if err := check(status, &failed); err != nil {
		return nil, err
	}
	return newBinding(binding), nil
}

// Launch is bind and launch in one call, for buffers that change every time; m and flags as in Binding.Launch.
func (p *Plan) Launch(stream Stream, m int64, buffers []DevicePtr, workspace DevicePtr, flags uint32) error {
	plan, err := p.h.acquire()
	if err != nil {
		return err
	}
	defer p.h.done()
	result := C.sinter_go_plan_launch(plan, C.uintptr_t(stream), symbols(m), C.int64_t(m),
		C.uint32_t(len(buffers)), first[DevicePtr, C.sinter_device_ptr](buffers), C.sinter_device_ptr(workspace),
		C.uint32_t(flags))
	return outcome(result)
}

func symbols(m int64) C.uint32_t {
	if m == NoM {
		return 0
	}
	return 1
}

// Binding is a plan bound to buffers; it keeps the plan. Safe for concurrent use.
type Binding struct{ h *handle }

func newBinding(p *C.sinter_binding) *Binding {
	return &Binding{newHandle("the binding", unsafe.Pointer(p), func(p unsafe.Pointer) {
		C.sinter_binding_release((*C.sinter_binding)(p))
	})}
}

// acquire is for a binding that is an argument.
func (b *Binding) acquire() (unsafe.Pointer, error) {
	if b == nil {
		return nil, invalid("binding is nil")
	}
	return b.h.acquire()
}

// Close gives the binding back; launches that are under way, and captured graphs, keep what they need.
func (b *Binding) Close() { b.h.close() }

// Launch enqueues the plan's kernels for m rows, NoM for a chain without M. flags: LaunchPDL. It only enqueues, and is
// legal in capture.
func (b *Binding) Launch(stream Stream, m int64, flags uint32) error {
	binding, err := b.h.acquire()
	if err != nil {
		return err
	}
	defer b.h.done()
	result := C.sinter_go_launch(binding, C.uintptr_t(stream), symbols(m), C.int64_t(m),
		C.uint32_t(flags))
	return outcome(result)
}
