package sinter

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Check is how outputs compare with the reference.
type Check struct {
	Within               bool    // both errors are within their bounds, and no element is not a number
	Relative, MaxOverRMS float64 // ||out - ref|| / ||ref||, and max|out - ref| / rms(ref)
	RelativeBound        float64
	MaxBound             float64
	Count, NotNumbers    int64
}

// CheckReference computes the chain on the CPU in float64 and compares `outputs` with it: host memory, as large as Buffer
// says. It is in the experimental part of the ABI.
func (c *Chain) CheckReference(m int64, inputs, outputs [][]byte) (Check, error) {
	p, err := c.acquire()
	if err != nil {
		return Check{}, err
	}
	defer c.h.done()
	var a arena
	defer a.free()
	in, err := c.hostBuffers(&a, inputs, 0, c.InputCount(), m)
	if err != nil {
		return Check{}, err
	}
	out, err := c.hostBuffers(&a, outputs, c.InputCount(), c.OutputCount(), m)
	if err != nil {
		return Check{}, err
	}
	var made C.sinter_x_check
	made.struct_size = C.sizeof_sinter_x_check
	var failed *C.sinter_error
	err = check(C.sinter_x_reference_check(p, C.int64_t(m), C.uint32_t(len(inputs)), in, C.uint32_t(len(outputs)), out, 0, 0,
		&made, &failed), &failed)
	return Check{Within: made.within != 0, Relative: float64(made.relative), MaxOverRMS: float64(made.max_over_rms),
		RelativeBound: float64(made.relative_bound), MaxBound: float64(made.max_bound), Count: int64(made.count),
		NotNumbers: int64(made.nans)}, err
}

// hostBuffers copies buffers to C memory: an array of pointers may not point to Go's.
func (c *Chain) hostBuffers(a *arena, buffers [][]byte, from, count int, m int64) (*unsafe.Pointer, error) {
	if len(buffers) != count {
		return nil, invalid("%d buffers are given, the chain has %d", len(buffers), count)
	}
	pointers := unsafe.Slice((*unsafe.Pointer)(a.alloc(8*count+8)), count+1)
	for i, buffer := range buffers {
		info, err := c.Buffer(from+i, m)
		if err != nil {
			return nil, err
		}
		if uint64(len(buffer)) < info.Bytes {
			return nil, invalid("buffer %d has %d bytes, the chain's has %d", from+i, len(buffer), info.Bytes)
		}
		pointers[i] = a.alloc(len(buffer))
		copy(unsafe.Slice((*byte)(pointers[i]), len(buffer)+1), buffer)
	}
	return &pointers[0], nil
}
