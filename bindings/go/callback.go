package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"sync"
	"sync/atomic"
)

// callbacks are Go functions by number, which C gets as user data. Not a cgo.Handle, whose number panics once it is
// deleted: a plan or a captured graph may log after its context was closed, and is ignored then.
var (
	callbacks    sync.Map
	lastCallback uint64
)

func register(function interface{}) C.uintptr_t {
	id := atomic.AddUint64(&lastCallback, 1)
	callbacks.Store(id, function)
	return C.uintptr_t(id)
}

func unregister(id C.uintptr_t) { callbacks.Delete(uint64(id)) }

// quietly runs a callback on a goroutine of its own and waits: neither a panic nor runtime.Goexit, which t.FailNow calls,
// may unwind the library's frames.
func quietly(callback func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		callback()
	}()
	<-done
}

//export sinterGoLog
func sinterGoLog(id C.uintptr_t, level C.sinter_log_level, message C.sinter_go_text) {
	if function, found := callbacks.Load(uint64(id)); found {
		quietly(func() { function.(func(LogLevel, string))(LogLevel(level), C.GoString(message)) })
	}
}

//export sinterGoProgress
func sinterGoProgress(id C.uintptr_t, stage C.sinter_go_text, fraction C.double) {
	if function, found := callbacks.Load(uint64(id)); found {
		quietly(func() { function.(func(string, float64))(C.GoString(stage), float64(fraction)) })
	}
}

//export sinterGoReady
func sinterGoReady(id C.uintptr_t, pending C.sinter_go_pending, status C.sinter_status) {
	if function, found := callbacks.LoadAndDelete(uint64(id)); found {
		quietly(function.(func()))
	}
}
