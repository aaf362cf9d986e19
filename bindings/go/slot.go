package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// Slot is a place that always holds the best plan so far, for callers that must not wait. The contents of a plan, binding and
// graph never change: to use a better plan, acquire it, bind and capture again. Safe for concurrent use.
type Slot struct {
	h     *handle
	built *ending // shared by all who wait for the build
}

// SlotOptions of a slot. The prepare's are the build's.
type SlotOptions struct {
	PrepareOptions
	Manual   bool          // only Switch makes the final plan current, so that ranks change at one step
	Deadline time.Duration // of the build, from the call; 0: none. Then its error is DeadlineExceeded
}

// NewSlot finds the plan that serves m rows, or starts to build it in the background.
func (c *Context) NewSlot(chain *Chain, m int64, given SlotOptions) (*Slot, error) {
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
	options.deadline_us = C.int64_t(microseconds(given.Deadline))
	flags := C.uint32_t(0)
	if given.Manual {
		flags = C.SINTER_SLOT_MANUAL
	}
	var slot *C.sinter_slot
	var failed *C.sinter_error
	err = check(C.sinter_slot_create((*C.sinter_context)(p), described, C.int64_t(m), options, flags, &slot, &failed), &failed)
	if err != nil {
		progress.forget()
		return nil, err
	}
	built, err := whenBuilt(slot, progress.forget)
	if err != nil {
		C.sinter_slot_release(slot)
		progress.forget()
		return nil, err
	}
	return &Slot{newHandle("the slot", unsafe.Pointer(slot), func(p unsafe.Pointer) {
		C.sinter_slot_release((*C.sinter_slot)(p))
	}), built}, nil
}

// buildOf gives a new reference to the slot's build.
func buildOf(slot *C.sinter_slot) (build *C.sinter_pending, err error) {
	var failed *C.sinter_error
	err = check(C.sinter_slot_get_build(slot, &build, &failed), &failed)
	return build, err
}

// whenBuilt is whenEnded of the slot's build, which a held Pending keeps going when the slot is closed.
func whenBuilt(slot *C.sinter_slot, after func()) (*ending, error) {
	build, err := buildOf(slot)
	if err != nil {
		return nil, err
	}
	defer C.sinter_pending_release(build)
	return whenEnded(build, after)
}

// Close gives the slot back: a build under way is cancelled and waited for. Plans live on.
func (s *Slot) Close() { s.h.close() }

// Acquire gives the current plan at once. NotFound: there is none yet; else what the build failed with.
func (s *Slot) Acquire() (*Plan, error) {
	slot, err := s.h.acquire()
	if err != nil {
		return nil, err
	}
	defer s.h.done()
	var plan *C.sinter_plan
	var failed *C.sinter_error
	if err := check(C.sinter_slot_acquire((*C.sinter_slot)(slot), &plan, &failed), &failed); err != nil {
		return nil, err
	}
	return newPlan(plan), nil
}

// Generation is 0 without a plan, 1 for one that stands in, 2 for the final one and one more for each that was offered,
// current or not; 0 once closed.
func (s *Slot) Generation() uint64 {
	slot, err := s.h.acquire()
	if err != nil {
		return 0
	}
	defer s.h.done()
	return uint64(C.sinter_slot_get_generation((*C.sinter_slot)(slot)))
}

// Offer gives the slot a plan that was prepared elsewhere for the same chain, bucket and device: by a context with another
// tuning set. InvalidArgument names what differs; FailedPrecondition: the slot's build is under way.
func (s *Slot) Offer(plan *Plan) error {
	slot, err := s.h.acquire()
	if err != nil {
		return err
	}
	defer s.h.done()
	offered, err := plan.acquire()
	if err != nil {
		return err
	}
	defer plan.h.done()
	var failed *C.sinter_error
	return check(C.sinter_slot_offer((*C.sinter_slot)(slot), (*C.sinter_plan)(offered), &failed), &failed)
}

// Switch makes the newest plan of a manual slot current. NotFound: it is being built.
func (s *Slot) Switch() error {
	slot, err := s.h.acquire()
	if err != nil {
		return err
	}
	defer s.h.done()
	var failed *C.sinter_error
	return check(C.sinter_slot_switch((*C.sinter_slot)(slot), &failed), &failed)
}

// Build gives the build, which has ended after a hit: its channel, its plan, current or not, or its error. A build that is
// held goes on when the slot is closed.
func (s *Slot) Build() (*Pending, error) {
	slot, err := s.h.acquire()
	if err != nil {
		return nil, err
	}
	defer s.h.done()
	build, err := buildOf((*C.sinter_slot)(slot))
	if err != nil {
		return nil, err
	}
	return newPending(context.Background(), build, s.built), nil
}

// Wait waits for the build, and gives its plan, current or not, or its error. When ctx ends, the build goes on.
func (s *Slot) Wait(ctx context.Context) (*Plan, error) {
	build, err := s.Build()
	if err != nil {
		return nil, err
	}
	defer build.Close()
	return build.Wait(ctx)
}
