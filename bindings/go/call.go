package sinter

/*
#cgo LDFLAGS: -lsinter
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"math"
	"strings"
	"unsafe"
)

func (s Status) String() string { return C.GoString(C.sinter_status_name(C.sinter_status(s))) }

// Error is a failed call.
type Error struct {
	Status       Status
	Message      string // one lower-case line naming the op, the field, the value and the bound
	Op           int    // the number of the op that the message names, of an add that failed the values before it; -1: none
	Field        string // the argument, option or operand that the message names; "": none
	Value        string // what it is; "": none
	Bound        string // what it must be, such as "in [-1, 64]"; "": none
	DriverResult int32  // the CUresult that caused Driver, else 0
	CompileLog   string // the compiler's log of CompileFailed, else ""

	cause error // of a context.Context that ended the call
}

func (e *Error) Error() string { return e.Status.String() + ": " + e.Message }

// Unwrap is the context's error where a context.Context ended the call: errors.Is(err, context.Canceled).
func (e *Error) Unwrap() error { return e.cause }

func invalid(format string, arguments ...interface{}) *Error {
	return newError(InvalidArgument, fmt.Sprintf(format, arguments...))
}

// newError is an error without fields.
func newError(status Status, message string) *Error {
	return &Error{Status: status, Message: message, Op: -1}
}

// check takes the error that a call made. It takes the error's address, because Go does not define whether a variable in an
// argument list is read before a call in the same list.
func check(status C.sinter_status, made **C.sinter_error) error {
	if status == C.SINTER_OK {
		return nil
	}
	failed := newError(Status(status), "")
	if err := *made; err != nil {
		failed.Message = C.GoString(C.sinter_error_get_message(err))
		failed.Op = int(C.sinter_error_get_op(err))
		failed.Field = C.GoString(C.sinter_error_get_field(err)) // "" of NULL
		failed.Value = C.GoString(C.sinter_error_get_value(err))
		failed.Bound = C.GoString(C.sinter_error_get_bound(err))
		failed.DriverResult = int32(C.sinter_error_get_driver_result(err))
		failed.CompileLog = C.GoString(C.sinter_error_get_compile_log(err))
		C.sinter_error_release(err)
	}
	return failed
}

// outcome is check of a result by value; it allocates nothing where all is well.
func outcome(result C.sinter_go_result) error {
	if result.status == C.SINTER_OK {
		return nil
	}
	made := result.error
	return check(result.status, &made)
}

// arena is C memory that lives for one call: C may not be given Go memory that holds Go pointers.
type arena struct {
	blocks []unsafe.Pointer
	err    error // the first text that cannot be handed over
}

func (a *arena) free() {
	for _, block := range a.blocks {
		C.free(block)
	}
}

func (a *arena) text(field, text string) *C.char {
	if strings.IndexByte(text, 0) >= 0 && a.err == nil {
		a.err = invalid("%s %q holds a NUL character", field, text)
	}
	c := C.CString(text)
	a.blocks = append(a.blocks, unsafe.Pointer(c))
	return c
}

// optional is NULL for nil.
func (a *arena) optional(field string, text *string) *C.char {
	if text == nil {
		return nil
	}
	return a.text(field, *text)
}

func (a *arena) alloc(bytes int) unsafe.Pointer {
	block := C.calloc(1, C.size_t(bytes+1)) // never NULL for no bytes
	a.blocks = append(a.blocks, block)
	return block
}

// int64s is NULL for nil.
func (a *arena) int64s(values []int64) *C.int64_t {
	if values == nil {
		return nil
	}
	block := (*C.int64_t)(a.alloc(8 * len(values)))
	copy(unsafe.Slice((*int64)(unsafe.Pointer(block)), len(values)), values)
	return block
}

func (a *arena) int32s(values []int32) *C.int32_t {
	if values == nil {
		return nil
	}
	block := (*C.int32_t)(a.alloc(4 * len(values)))
	copy(unsafe.Slice((*int32)(unsafe.Pointer(block)), len(values)), values)
	return block
}

// number is value as the C ABI has it. One below `least`, or of more than 32 bits, is kept as the first error: it would be
// another number there.
func number(field string, value, least int, first *error) C.int32_t {
	if *first == nil && (value < least || value > math.MaxInt32) {
		*first = invalid("%s is %d, must be %d to %d", field, value, least, math.MaxInt32)
	}
	return C.int32_t(value)
}

// first is the address of a slice of numbers for one call, NULL when empty.
func first[T any, P any](values []T) *P {
	if len(values) == 0 {
		return nil
	}
	return (*P)(unsafe.Pointer(&values[0]))
}

// Version is major * 10000 + minor * 100 + patch of the library.
func Version() int { return int(C.sinter_version()) }

// BuildInfo is one line: the library's version, compiler and build type.
func BuildInfo() string { return C.GoString(C.sinter_build_info()) }

// longText takes text by the two-call pattern; it may grow between two calls.
func longText(call func(C.size_t, *C.char, *C.size_t, **C.sinter_error) C.sinter_status) (string, error) {
	var a arena
	defer a.free()
	for capacity := C.size_t(1 << 14); ; {
		var failed *C.sinter_error
		var size C.size_t
		text := (*C.char)(a.alloc(int(capacity)))
		if err := check(call(capacity, text, &size, &failed), &failed); err != nil {
			return "", err
		}
		if size <= capacity {
			return C.GoString(text), nil
		}
		capacity = size
	}
}
