package sinter

/*
#include "shim.h"
*/
import "C"

import "context"

// Search is what a prepare would choose; nothing is built.
type Search struct {
	Bucket        int64   // the largest m that one pass of the plan serves
	KernelCount   int     // kernels that a launch enqueues
	PredictedUs   float64 // microseconds at the bucket's rows, as the cost model predicts them
	UnfusedUs     float64 // the same of the plain plan
	WorkspaceSize uint64  // bytes; may be 0
	Choice        Choice  // ChoiceUnfused for the plain plan, else ChoiceFused
	Measured      bool    // whether a measurement chose the plan
	Name          string  // "fused", "partly fused" or "unfused"
	Note          string  // for people: which ops share kernels, and why others do not
}

// Search finds what Prepare would choose for m rows; Prepare then does not search again. It holds an operating system thread
// meanwhile. When ctx ends, it returns an error that wraps ctx.Err().
func (c *Context) Search(ctx context.Context, chain *Chain, m int64, given PrepareOptions) (*Search, error) {
	var found *C.sinter_search
	err := c.ask(ctx, chain, given, func(p *C.sinter_context, described *C.sinter_chain, options *C.sinter_prepare_options, failed **C.sinter_error) C.sinter_status {
		return C.sinter_context_search(p, described, C.int64_t(m), options, &found, failed)
	})
	if err != nil {
		return nil, err
	}
	defer C.sinter_search_release(found)
	return &Search{
		Bucket:        int64(C.sinter_search_get_bucket(found)),
		KernelCount:   int(C.sinter_search_get_kernel_count(found)),
		PredictedUs:   float64(C.sinter_search_get_predicted_us(found)),
		UnfusedUs:     float64(C.sinter_search_get_unfused_us(found)),
		WorkspaceSize: uint64(C.sinter_search_get_workspace_size(found)),
		Choice:        Choice(C.sinter_search_get_choice(found)),
		Measured:      C.sinter_search_is_measured(found) != 0,
		Name:          C.GoString(C.sinter_search_get_name(found)),
		Note:          C.GoString(C.sinter_search_get_note(found)),
	}, nil
}
