package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"math"
	"time"
	"unsafe"
)

// PrepareOptions of a prepare. The deadline and the cancel are the context.Context's.
type PrepareOptions struct {
	BatchInvariant bool                                 // a row's bits do not depend on how many rows there are
	MustHit        bool                                 // a cache miss is CacheMiss
	NoBuild        bool                                 // only a plan that is there, at once; else NotFound
	Verify         bool                                 // check a new kernel against the plain plan at its first prepare
	Progress       func(stage string, fraction float64) // from any thread, of the whole call; a panic is caught
	Stream         Stream                               // where the plan is meant for: if it captures, StreamCapturing
	Choice         Choice
	Threads        int           // PrepareMany: at most so many at once; 0: one per processor, at most 16
	Measure        int           // candidates built and timed on the GPU where no measured choice is kept, to 64; 0: as the context says; -1: none
	MeasureBudget  time.Duration // at its end the best measured candidate wins; 0: 20 seconds
}

// Item is one prepare of many.
type Item struct {
	Chain *Chain
	M     int64
}

// Prepare finds or builds the plan that serves m rows; m is ignored when the chain has no M. It holds an operating system
// thread meanwhile. When ctx ends, it returns an error that wraps ctx.Err(), within 100 ms unless a call of the compiler
// is under way.
func (c *Context) Prepare(ctx context.Context, chain *Chain, m int64) (*Plan, error) {
	return c.PrepareWith(ctx, chain, m, PrepareOptions{})
}

// PrepareWith is Prepare with options.
func (c *Context) PrepareWith(ctx context.Context, chain *Chain, m int64, given PrepareOptions) (*Plan, error) {
	var plan *C.sinter_plan
	err := c.ask(ctx, chain, given, func(p *C.sinter_context, described *C.sinter_chain, options *C.sinter_prepare_options, failed **C.sinter_error) C.sinter_status {
		return C.sinter_prepare(p, described, C.int64_t(m), options, &plan, failed)
	})
	if err != nil {
		return nil, err
	}
	return newPlan(plan), nil
}

// ask makes a call of the library for a chain that blocks; neither handle is released meanwhile.
func (c *Context) ask(ctx context.Context, chain *Chain, given PrepareOptions,
	call func(*C.sinter_context, *C.sinter_chain, *C.sinter_prepare_options, **C.sinter_error) C.sinter_status) error {
	p, err := c.h.acquire()
	if err != nil {
		return err
	}
	defer c.h.done()
	described, err := chain.acquire()
	if err != nil {
		return err
	}
	defer chain.h.done()
	return given.call(ctx, func(options *C.sinter_prepare_options, failed **C.sinter_error) C.sinter_status {
		return call((*C.sinter_context)(p), described, options, failed)
	})
}

// PrepareMany prepares in parallel and waits for all. plans[i] is nil where errs[i] is not; the library gives the message
// of the first of them alone.
func (c *Context) PrepareMany(ctx context.Context, items []Item, given PrepareOptions) (plans []*Plan, errs []error) {
	plans, errs = make([]*Plan, len(items)), make([]error, len(items))
	fail := func(err error) ([]*Plan, []error) {
		for i := range errs {
			errs[i] = err
		}
		return plans, errs
	}
	p, err := c.h.acquire()
	if err != nil {
		return fail(err)
	}
	defer c.h.done()
	var a arena
	defer a.free()
	n := len(items)
	chains := unsafe.Slice((**C.sinter_chain)(a.alloc(8*n+8)), n+1)
	made := unsafe.Slice((**C.sinter_plan)(a.alloc(8*n+8)), n+1)
	statuses := unsafe.Slice((*C.sinter_status)(a.alloc(4*n+4)), n+1)
	ms := unsafe.Slice((*C.int64_t)(a.alloc(8*n+8)), n+1)
	for i, item := range items {
		if chains[i], err = item.Chain.acquire(); err != nil {
			return fail(err)
		}
		defer item.Chain.h.done()
		ms[i], statuses[i] = C.int64_t(item.M), C.SINTER_UNKNOWN
	}
	err = given.call(ctx, func(options *C.sinter_prepare_options, failed **C.sinter_error) C.sinter_status {
		return C.sinter_prepare_many((*C.sinter_context)(p), C.uint32_t(n), &chains[0], &ms[0], options, &made[0],
			&statuses[0], failed)
	})
	said := false
	for i := range items {
		switch {
		case made[i] != nil:
			plans[i] = newPlan(made[i])
		case err != nil && (!said || statuses[i] == C.SINTER_UNKNOWN): // UNKNOWN: the call was refused as a whole
			errs[i], said = err, true
		default:
			errs[i] = because(ctx, newError(Status(statuses[i]), fmt.Sprintf("item %d of PrepareMany", i)))
		}
	}
	return plans, errs
}

// call runs f with the options of the C ABI; ctx cancels it and sets its deadline.
func (given *PrepareOptions) call(ctx context.Context,
	f func(*C.sinter_prepare_options, **C.sinter_error) C.sinter_status) error {
	var a arena
	defer a.free()
	options, progress, err := given.raw(&a)
	if err != nil {
		return err
	}
	defer progress.forget()
	stop, err := watch(ctx, options)
	if err != nil {
		return err
	}
	var failed *C.sinter_error
	err = check(f(options, &failed), &failed)
	stop()
	return because(ctx, err)
}

// progressKey is what a progress callback is registered by; nil without one.
type progressKey struct{ id C.uintptr_t }

func (key *progressKey) forget() {
	if key != nil {
		unregister(key.id)
	}
}

// raw is the options of the C ABI, which live as long as the arena.
func (given *PrepareOptions) raw(a *arena) (options *C.sinter_prepare_options, progress *progressKey, err error) {
	options = (*C.sinter_prepare_options)(a.alloc(C.sizeof_sinter_prepare_options))
	options.struct_size = C.sizeof_sinter_prepare_options
	for flag, wanted := range map[C.uint32_t]bool{C.SINTER_PREPARE_BATCH_INVARIANT: given.BatchInvariant,
		C.SINTER_PREPARE_MUST_HIT: given.MustHit, C.SINTER_PREPARE_VERIFY: given.Verify, C.SINTER_PREPARE_NO_BUILD: given.NoBuild} {
		if wanted {
			options.flags |= flag
		}
	}
	C.sinter_go_set_stream(options, C.uintptr_t(given.Stream))
	options.choice = C.sinter_choice(given.Choice)
	options.threads = C.uint32_t(number("prepare.threads", given.Threads, 0, &err))
	options.measure = number("prepare.measure", given.Measure, math.MinInt32, &err)
	options.measure_budget_us = C.int64_t(given.MeasureBudget.Microseconds())
	if given.MeasureBudget != 0 && options.measure_budget_us == 0 { // 0 is not none to the library
		options.measure_budget_us = 1
	}
	if err != nil {
		return nil, nil, err
	}
	if given.Progress != nil {
		progress = &progressKey{register(given.Progress)}
		C.sinter_go_use_progress(options, progress.id)
	}
	return options, progress, nil
}

// watch hands ctx's deadline and cancel to the options; the function it returns ends that.
func watch(ctx context.Context, options *C.sinter_prepare_options) (stop func(), err error) {
	if deadline, set := ctx.Deadline(); set {
		options.deadline_us = C.int64_t(time.Until(deadline).Microseconds())
		if options.deadline_us <= 0 {
			options.deadline_us = 1 // 0 means no deadline
		}
	}
	if ctx.Done() == nil {
		return func() {}, nil
	}
	var cancel *C.sinter_cancel
	var failed *C.sinter_error
	if err := check(C.sinter_cancel_create(&cancel, &failed), &failed); err != nil {
		return nil, err
	}
	options.cancel = cancel
	if ctx.Err() != nil {
		C.sinter_cancel_request(cancel) // at once, so that nothing is begun
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			C.sinter_cancel_request(cancel)
		case <-ended:
		}
	}()
	return func() {
		close(ended)
		<-watched
		C.sinter_cancel_release(cancel)
	}, nil
}

// because adds to an error that ctx ended the call.
func because(ctx context.Context, err error) error {
	failed, ok := err.(*Error)
	if !ok || (failed.Status != Cancelled && failed.Status != DeadlineExceeded) {
		return err
	}
	failed.cause = ctx.Err()
	if failed.cause == nil && failed.Status == DeadlineExceeded { // the library's clock was ahead of Go's
		failed.cause = context.DeadlineExceeded
	}
	if failed.cause == context.DeadlineExceeded { // its cancel may have come first
		failed.Status = DeadlineExceeded
	}
	return failed
}
