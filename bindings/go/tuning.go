package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// TuningSet holds choices that were measured: what Tune adds to, what Options.TuningSet names. Safe for concurrent use.
type TuningSet struct{ h *handle }

// NewTuningSet is an empty set.
func NewTuningSet() (*TuningSet, error) {
	var p *C.sinter_tuning_set
	var failed *C.sinter_error
	if err := check(C.sinter_tuning_set_create(&p, &failed), &failed); err != nil {
		return nil, err
	}
	return &TuningSet{newHandle("the tuning set", unsafe.Pointer(p), func(p unsafe.Pointer) {
		C.sinter_tuning_set_release((*C.sinter_tuning_set)(p))
	})}, nil
}

// Close gives the set back.
func (t *TuningSet) Close() { t.h.close() }

// AddFile adds the entries of a file; they replace equal ones.
func (t *TuningSet) AddFile(path string) error {
	return t.withPath(path, func(p *C.sinter_tuning_set, path *C.char, failed **C.sinter_error) C.sinter_status {
		return C.sinter_tuning_set_add_file(p, path, failed)
	})
}

// Write writes a new file and renames it to path.
func (t *TuningSet) Write(path string) error {
	return t.withPath(path, func(p *C.sinter_tuning_set, path *C.char, failed **C.sinter_error) C.sinter_status {
		return C.sinter_tuning_set_write(p, path, failed)
	})
}

func (t *TuningSet) withPath(path string,
	f func(*C.sinter_tuning_set, *C.char, **C.sinter_error) C.sinter_status) error {
	p, err := t.h.acquire()
	if err != nil {
		return err
	}
	defer t.h.done()
	var a arena
	defer a.free()
	text := a.text("path", path)
	if a.err != nil {
		return a.err
	}
	var failed *C.sinter_error
	return check(f((*C.sinter_tuning_set)(p), text, &failed), &failed)
}

// Count is how many entries it has; 0 once closed.
func (t *TuningSet) Count() uint64 {
	p, err := t.h.acquire()
	if err != nil {
		return 0
	}
	defer t.h.done()
	return uint64(C.sinter_tuning_set_get_count((*C.sinter_tuning_set)(p)))
}

// Digest is of the set's canonical text.
func (t *TuningSet) Digest() (digest Digest, err error) {
	p, err := t.h.acquire()
	if err != nil {
		return digest, err
	}
	defer t.h.done()
	var failed *C.sinter_error
	err = check(C.sinter_tuning_set_get_digest((*C.sinter_tuning_set)(p), (*C.uint8_t)(&digest[0]), &failed), &failed)
	return digest, err
}

// TuneOptions of a tuning.
type TuneOptions struct {
	BatchInvariant bool          // for plans prepared so
	Keep           bool          // an entry of Into that can still be used stays, unmeasured
	Deadline       time.Duration // 0: none. At the deadline the best measured candidate wins
	TopK           int           // candidates built and measured; 0: 11
	SwitchMargin   float64       // a tuned choice must be faster by this fraction; 0: 0.02
	Stream         Stream        // as in PrepareOptions
	Into           *TuningSet    // receives the choice; nil: none
}

// microseconds are rounded away from 0, which means no limit.

func microseconds(d time.Duration) int64 {
	us := d.Microseconds()
	switch {
	case us == 0 && d > 0:
		return 1
	case us == 0 && d < 0:
		return -1
	}
	return us
}

// Tune builds the best-ranked candidates, measures them on the context's GPU and adds the choice to given.Into.
func (c *Context) Tune(chain *Chain, m int64, given TuneOptions) error {
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
	var options C.sinter_tune_options
	options.struct_size = C.sizeof_sinter_tune_options
	if given.BatchInvariant {
		options.flags |= C.SINTER_TUNE_BATCH_INVARIANT
	}
	if given.Keep {
		options.flags |= C.SINTER_TUNE_KEEP
	}
	options.deadline_us = C.int64_t(microseconds(given.Deadline))
	options.top_k = number("tune.top_k", given.TopK, 0, &err)
	if err != nil {
		return err
	}
	options.switch_margin = C.double(given.SwitchMargin)
	C.sinter_go_set_tune_stream(&options, C.uintptr_t(given.Stream))
	if given.Into != nil {
		set, err := given.Into.h.acquire()
		if err != nil {
			return err
		}
		defer given.Into.h.done()
		options.into = (*C.sinter_tuning_set)(set)
	}
	var failed *C.sinter_error
	return check(C.sinter_tune((*C.sinter_context)(p), described, C.int64_t(m), &options, &failed), &failed)
}
