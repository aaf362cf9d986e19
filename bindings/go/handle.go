package sinter

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// pointer is an object of the library.
type pointer = unsafe.Pointer

// handle is one reference to an object of the library. Calls and Close may race: the last one gives the reference
// back. A finalizer is the safety net for callers that forget to Close.
type handle struct {
	p       unsafe.Pointer
	release func(unsafe.Pointer)
	what    string
	users   int64 // calls under way, and 1 for the owner until it has closed
	closed  int32
}

// live is how many handles were not given back yet.
var live int64

func newHandle(what string, p unsafe.Pointer, release func(unsafe.Pointer)) *handle {
	h := &handle{p: p, release: release, what: what, users: 1}
	// By a goroutine: the release of a prepare waits for it, and all finalizers share one goroutine.
	runtime.SetFinalizer(h, func(h *handle) { go h.close() })
	atomic.AddInt64(&live, 1)
	return h
}

// acquire gives the pointer for a call; `done` must follow. A handle that is nil or closed is an error.
func (h *handle) acquire() (unsafe.Pointer, error) {
	if h == nil {
		return nil, newError(InvalidArgument, "the handle is nil or was not made by this package")
	}
	for {
		users := atomic.LoadInt64(&h.users)
		if users == 0 || atomic.LoadInt32(&h.closed) != 0 {
			return nil, newError(FailedPrecondition, h.what+" is closed")
		}
		if atomic.CompareAndSwapInt64(&h.users, users, users+1) {
			return h.p, nil
		}
	}
}

func (h *handle) done() {
	if atomic.AddInt64(&h.users, -1) == 0 {
		h.release(h.p)
		atomic.AddInt64(&live, -1)
	}
	runtime.KeepAlive(h) // the finalizer must not run while a call is under way
}

func (h *handle) close() {
	if h == nil || !atomic.CompareAndSwapInt32(&h.closed, 0, 1) {
		return
	}
	runtime.SetFinalizer(h, nil)
	h.done()
}
