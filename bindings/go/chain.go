package sinter

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Chain is a finished graph of operators. It belongs to no context. Safe for concurrent use.
type Chain struct{ h *handle }

func newChain(p *C.sinter_chain) *Chain {
	return &Chain{newHandle("the chain", unsafe.Pointer(p), func(p unsafe.Pointer) {
		C.sinter_chain_release((*C.sinter_chain)(p))
	})}
}

func (c *Chain) acquire() (*C.sinter_chain, error) {
	if c == nil {
		return nil, invalid("chain is nil")
	}
	p, err := c.h.acquire()
	return (*C.sinter_chain)(p), err
}

// ParseChain reads one line of text, such as "gated_ffn m=M n=14336 k=4096 l=4096 act=silu dtype=bf16"; docs/chains.md has
// the kinds and their keys. It is in the experimental part of the ABI.
func ParseChain(line string) (*Chain, error) {
	var a arena
	defer a.free()
	text := a.text("line", line)
	if a.err != nil {
		return nil, a.err
	}
	var p *C.sinter_chain
	var failed *C.sinter_error
	if err := check(C.sinter_x_chain_from_text(text, &p, nil, nil, &failed), &failed); err != nil {
		return nil, err
	}
	return newChain(p), nil
}

// Close gives the chain back; plans live on.
func (c *Chain) Close() { c.h.close() }

// InputCount is how many buffers come before the outputs; 0 once closed.
func (c *Chain) InputCount() int {
	p, err := c.acquire()
	if err != nil {
		return 0
	}
	defer c.h.done()
	return int(C.sinter_chain_get_input_count(p))
}

// OutputCount is how many buffers come after the inputs; 0 once closed.
func (c *Chain) OutputCount() int {
	p, err := c.acquire()
	if err != nil {
		return 0
	}
	defer c.h.done()
	return int(C.sinter_chain_get_output_count(p))
}

// UsesM is whether M occurs: launches then take it.
func (c *Chain) UsesM() bool {
	p, err := c.acquire()
	if err != nil {
		return false
	}
	defer c.h.done()
	return C.sinter_chain_uses_m(p) != 0
}

// TensorInfo is one buffer of a chain, M filled in.
type TensorInfo struct {
	DType    DType
	Dims     []int64
	Strides  []int64 // in elements
	Bytes    uint64  // from the first element to the end of the last
	Constant bool
	Name     string
}

// Buffer is buffer `index`, inputs in the order of their adds, then outputs as declared, at M = m.
func (c *Chain) Buffer(index int, m int64) (TensorInfo, error) {
	p, err := c.acquire()
	if err != nil {
		return TensorInfo{}, err
	}
	defer c.h.done()
	if index < 0 || int64(index) > 1<<31 {
		return TensorInfo{}, newError(OutOfRange, invalid("index is %d", index).Message)
	}
	var info C.sinter_tensor_info
	info.struct_size = C.sizeof_sinter_tensor_info
	var failed *C.sinter_error
	if err := check(C.sinter_chain_get_buffer(p, C.uint32_t(index), C.int64_t(m), &info, &failed), &failed); err != nil {
		return TensorInfo{}, err
	}
	result := TensorInfo{DType: DType(info.dtype), Bytes: uint64(info.bytes), Name: C.GoString(info.name),
		Constant: info.flags&C.SINTER_INPUT_CONSTANT != 0}
	for i := 0; i < int(info.rank); i++ {
		result.Dims = append(result.Dims, int64(info.dims[i]))
		result.Strides = append(result.Strides, int64(info.strides[i]))
	}
	return result, nil
}
