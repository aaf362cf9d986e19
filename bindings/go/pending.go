package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"sync"
	"unsafe"
)

// Pending is a prepare under way, on a thread of the library. Safe for concurrent use. One that is no longer reachable is
// cancelled.
type Pending struct {
	h     *handle
	ready <-chan struct{}
	ctx   context.Context
}

// PrepareAsync starts a prepare and returns at once. Wait returns its error, unless a handle is closed. When ctx ends, so
// does the prepare.
func (c *Context) PrepareAsync(ctx context.Context, chain *Chain, m int64, given PrepareOptions) (*Pending, error) {
	p, err := c.h.acquire()
	if err != nil {
		return nil, err
	}
	defer c.h.done()
	described, err := chain.acquire()
	if err != nil {
		return nil, err
	}
	defer chain.h.done()
	var a arena
	defer a.free()
	options, progress, err := given.raw(&a)
	if err != nil {
		return nil, err
	}
	stop, err := watch(ctx, options)
	if err != nil {
		progress.forget()
		return nil, err
	}
	after := func() {
		stop()
		progress.forget()
	}
	var pending *C.sinter_pending
	var failed *C.sinter_error
	status := C.sinter_prepare_async((*C.sinter_context)(p), described, C.int64_t(m), options, &pending, &failed)
	if err := check(status, &failed); err != nil {
		after()
		return nil, because(ctx, err)
	}
	end, err := whenEnded(pending, after)
	if err != nil {
		C.sinter_pending_release(pending)
		after()
		return nil, err
	}
	return newPending(ctx, pending, end), nil
}

// ending notifies waiters that a prepare has ended, each by its own channel, which the end of its Pending closes too.
// The library calls it: no goroutine waits. Invariant: a channel in `waiting` is open, and every other one is closed.
type ending struct {
	lock    sync.Mutex
	ended   bool
	waiting map[chan struct{}]bool
}

// whenEnded asks the library to report the prepare's end. `after` runs first, and gives back what the prepare used.
func whenEnded(pending *C.sinter_pending, after func()) (*ending, error) {
	end := &ending{waiting: map[chan struct{}]bool{}}
	id := register(func() {
		after()
		end.tell()
	})
	var failed *C.sinter_error
	if err := check(C.sinter_go_on_ready(unsafe.Pointer(pending), id, &failed), &failed); err != nil {
		unregister(id)
		return nil, err
	}
	return end, nil
}

func (e *ending) tell() {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.ended = true
	for ready := range e.waiting {
		close(ready)
	}
	e.waiting = nil
}

func (e *ending) add() chan struct{} {
	e.lock.Lock()
	defer e.lock.Unlock()
	ready := make(chan struct{})
	if e.ended {
		close(ready)
	} else {
		e.waiting[ready] = true
	}
	return ready
}

func (e *ending) remove(ready chan struct{}) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.waiting[ready] {
		delete(e.waiting, ready)
		close(ready)
	}
}

// newPending takes a reference.
func newPending(ctx context.Context, raw *C.sinter_pending, end *ending) *Pending {
	ready := end.add()
	return &Pending{newHandle("the pending prepare", unsafe.Pointer(raw), func(p unsafe.Pointer) {
		C.sinter_pending_release((*C.sinter_pending)(p))
		end.remove(ready)
	}), ready, ctx}
}

// over is closed: nobody waits for a prepare that is not under way.
var over = func() chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}()

// Done gives a channel that is closed when the prepare has ended, with a plan or an error, or was closed: for a select. A zero
// Pending's channel is closed, as its Wait is an error.
func (p *Pending) Done() <-chan struct{} {
	if p.ready == nil {
		return over
	}
	return p.ready
}

// Wait gives the plan, or the prepare's error; it may be called again, and each plan is the caller's to close. When ctx
// ends, the prepare goes on, and the error wraps ctx.Err().
func (p *Pending) Wait(ctx context.Context) (*Plan, error) {
	select {
	case <-p.Done():
	default:
		select {
		case <-p.Done():
		case <-ctx.Done():
			return nil, stillUnderWay(ctx)
		}
	}
	raw, err := p.h.acquire()
	if err != nil {
		return nil, err
	}
	defer p.h.done()
	var plan *C.sinter_plan
	var failed *C.sinter_error
	if err := check(C.sinter_pending_get((*C.sinter_pending)(raw), 0, &plan, &failed), &failed); err != nil {
		return nil, because(p.ctx, err)
	}
	return newPlan(plan), nil
}

// stillUnderWay has the status that the library gives where a deadline or a cancel ends a call.
func stillUnderWay(ctx context.Context) error {
	return because(ctx, newError(Cancelled, "the prepare is still under way"))
}

// Close gives the prepare back. One under way is cancelled and waited for: mostly within 100 ms, longer while the compiler
// is at work.
func (p *Pending) Close() { p.h.close() }
