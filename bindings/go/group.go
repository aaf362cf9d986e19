package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Exchange is an all-gather of the caller, over MPI, sockets or a store: it takes this rank's bytes, which it may keep, and
// returns those of all ranks, as many of each, in the order of ranks. It must end by itself if a rank does not come. The call
// that gathered returns its error, or its panic as an error. It is not called again for the group then.
type Exchange func(mine []byte) (all [][]byte, err error)

// GroupOptions of a group; sinter_group.h says of each field what it means.
type GroupOptions struct {
	SlotBytes uint64        // of the largest message of one kernel; 0: the library's choice
	Timeout   time.Duration // how long a kernel waits for another rank; 0: 10 seconds; negative: until Abort
	Peers     []DevicePtr   // the caller's symmetric memory, as this GPU sees each rank's; nil: the library allocates
	PeerBytes uint64        // of each of them

	// What the library allocates is shared by POSIX file descriptors, not by cuIpc handles.
	Descriptors bool
}

// Group is this rank's part in a group of GPUs of one host, over which chains are split. Safe for concurrent use; it serves
// one stream at a time. Bindings keep what they need of it.
//
// Close it: other ranks write this one's memory, and freeing that while they live is undefined. One that is no longer
// reachable and was not closed ends on all ranks, and keeps its memory until the process ends.
type Group struct {
	h          *handle
	rank, size int
	gathers    *gathers // nil where all ranks are of this process
}

// gathers is a caller's exchange, and what it failed with in the call under way.
type gathers struct {
	exchange Exchange
	size     int
	id       C.uintptr_t
	closed   int32 // the ranks have closed one another's memory

	calls  sync.Mutex // one that may gather at a time, as in the library
	failed error
}

// in runs a call that may gather; an exchange's own error takes the place of the library's.
func (g *gathers) in(call func() error) error {
	if g == nil {
		return call()
	}
	g.calls.Lock()
	defer g.calls.Unlock()
	g.failed = nil
	err := call()
	if err != nil && g.failed != nil {
		return g.failed
	}
	return err
}

func (g *gathers) run(mine, all []byte) {
	g.failed = newError(Unknown, "group.exchange panicked")
	parts, err := g.exchange(append([]byte(nil), mine...))
	if err != nil {
		failed := newError(Unknown, "group.exchange: "+err.Error())
		failed.cause = err
		g.failed = failed
		return
	}
	if len(parts) != g.size {
		g.failed = invalid("group.exchange gave %d parts, must be %d", len(parts), g.size)
		return
	}
	for i, part := range parts {
		if len(part) != len(mine) {
			g.failed = invalid("group.exchange gave %d bytes of rank %d, must be %d", len(part), i, len(mine))
			return
		}
		copy(all[i*len(mine):], part)
	}
	g.failed = nil
}

//export sinterGoExchange
func sinterGoExchange(id C.uintptr_t, send C.sinter_go_bytes, bytes C.size_t, recv unsafe.Pointer) C.sinter_status {
	found, known := callbacks.Load(uint64(id))
	if !known {
		return C.SINTER_CANCELLED
	}
	g := found.(*gathers)
	mine := unsafe.Slice((*byte)(unsafe.Pointer(send)), int(bytes))
	quietly(func() { g.run(mine, unsafe.Slice((*byte)(recv), int(bytes)*g.size)) })
	if g.failed != nil {
		return C.SINTER_UNKNOWN
	}
	return C.SINTER_OK
}

// raw is given as the library reads it, in memory of the arena.
func (given *GroupOptions) raw(a *arena) *C.sinter_group_options {
	options := (*C.sinter_group_options)(a.alloc(C.sizeof_sinter_group_options))
	options.struct_size = C.sizeof_sinter_group_options
	options.slot_bytes = C.uint64_t(given.SlotBytes)
	switch ms := given.Timeout.Milliseconds(); {
	case given.Timeout < 0:
		options.flags = C.SINTER_GROUP_NO_TIMEOUT
	case ms > 1<<32-1:
		options.timeout_ms = 1<<32 - 1
	case given.Timeout > 0 && ms == 0:
		options.timeout_ms = 1
	default:
		options.timeout_ms = C.uint32_t(ms)
	}
	if given.Descriptors {
		options.flags |= C.SINTER_GROUP_DESCRIPTORS
	}
	if len(given.Peers) > 0 {
		peers := (*C.sinter_device_ptr)(a.alloc(8 * len(given.Peers)))
		copy(unsafe.Slice((*DevicePtr)(unsafe.Pointer(peers)), len(given.Peers)), given.Peers)
		options.peers = peers
		options.bytes = C.uint64_t(given.PeerBytes)
	}
	return options
}

// NewGroup is collective: all ranks call it, and where one fails all do. rank is one of size, 2 to 8. Peers outlive the
// group and every launch.
func (c *Context) NewGroup(rank, size int, exchange Exchange, given GroupOptions) (*Group, error) {
	if exchange == nil {
		return nil, invalid("group.exchange is nil")
	}
	if len(given.Peers) > 0 && len(given.Peers) != size {
		return nil, invalid("group.peers are %d, must be %d, one a rank", len(given.Peers), size)
	}
	p, err := c.h.acquire()
	if err != nil {
		return nil, err
	}
	defer c.h.done()
	var a arena
	defer a.free()
	options := given.raw(&a)
	options.rank = number("group.rank", rank, -1<<31, &a.err)
	options.size = number("group.size", size, -1<<31, &a.err)
	if a.err != nil {
		return nil, a.err
	}
	g := &gathers{exchange: exchange, size: size}
	g.id = register(g)
	C.sinter_go_use_exchange(options, g.id)
	var group *C.sinter_group
	err = g.in(func() error {
		var failed *C.sinter_error
		return check(C.sinter_group_create((*C.sinter_context)(p), options, &group, &failed), &failed)
	})
	if err != nil {
		unregister(g.id)
		return nil, err
	}
	return newGroup(group, rank, size, g), nil
}

// LocalGroups are of GPUs of this process, rank i that of contexts[i]. Bind every rank's plan before the first launch.
func LocalGroups(contexts []*Context, given GroupOptions) ([]*Group, error) {
	var a arena
	defer a.free()
	handles := unsafe.Slice((**C.sinter_context)(a.alloc(8*len(contexts)+8)), len(contexts)+1)
	for i, c := range contexts {
		if c == nil {
			return nil, invalid("contexts[%d] is nil", i)
		}
		p, err := c.h.acquire()
		if err != nil {
			return nil, err
		}
		defer c.h.done()
		handles[i] = (*C.sinter_context)(p)
	}
	made := unsafe.Slice((**C.sinter_group)(a.alloc(8*len(contexts)+8)), len(contexts)+1)
	var failed *C.sinter_error
	status := C.sinter_group_create_local(&handles[0], C.uint32_t(len(contexts)), given.raw(&a), &made[0], &failed)
	if err := check(status, &failed); err != nil {
		return nil, err
	}
	groups := make([]*Group, len(contexts))
	for i := range groups {
		groups[i] = newGroup(made[i], i, len(contexts), nil)
	}
	return groups, nil
}

func newGroup(p *C.sinter_group, rank, size int, g *gathers) *Group {
	return &Group{h: newHandle("the group", unsafe.Pointer(p), func(p unsafe.Pointer) {
		group := (*C.sinter_group)(p)
		if g != nil {
			unregister(g.id)
			if atomic.LoadInt32(&g.closed) == 0 { // other processes may have its memory open
				var failed *C.sinter_error
				_ = check(C.sinter_group_abort(group, &failed), &failed)
				return
			}
		}
		C.sinter_group_release(group)
	}), rank: rank, size: size, gathers: g}
}

// Rank is this rank's number, Size how many there are.
func (g *Group) Rank() int { return g.rank }

// Size is how many ranks there are.
func (g *Group) Size() int { return g.size }

// Err is nil while the group lives, else why it ended: DeadlineExceeded (a rank was missed), FailedPrecondition (ranks made
// different calls) or Aborted. It never blocks: ask after a synchronisation.
func (g *Group) Err() error {
	_, err := g.status()
	return err
}

// Missed is the rank because of which the group ended; -1 while it lives, and once it is closed.
func (g *Group) Missed() int {
	rank, _ := g.status()
	return rank
}

func (g *Group) status() (int, error) {
	group, err := g.h.acquire()
	if err != nil {
		return -1, err
	}
	defer g.h.done()
	rank := C.int32_t(-1)
	var failed *C.sinter_error
	err = check(C.sinter_group_get_status((*C.sinter_group)(group), &rank, &failed), &failed)
	return int(rank), err
}

// Abort ends the group on all ranks: waits of kernels return soon, later launches are refused.
func (g *Group) Abort() error {
	group, err := g.h.acquire()
	if err != nil {
		return err
	}
	defer g.h.done()
	var failed *C.sinter_error
	return check(C.sinter_group_abort((*C.sinter_group)(group), &failed), &failed)
}

// Close is collective, once every rank's launches are synchronised: it closes the ranks' memory and gives the group back;
// nothing may be launched over it afterwards. Where its exchange fails, the error: the memory stays until the process ends.
// A second Close does nothing.
func (g *Group) Close() error {
	group, err := g.h.acquire()
	if err != nil {
		return nil
	}
	err = g.gathers.in(func() error {
		var failed *C.sinter_error
		return check(C.sinter_group_close((*C.sinter_group)(group), &failed), &failed)
	})
	if err == nil && g.gathers != nil {
		atomic.StoreInt32(&g.gathers.closed, 1)
	}
	g.h.done()
	g.h.close()
	return err
}

// BindGroup is Bind of a chain that is split over the ranks of group, which the binding keeps. It is collective the first
// time that the group meets the plan: ranks bind their plans in one order. FailedPrecondition where ranks have different
// plans, or the group has another size, too small slots, or is closed.
func (p *Plan) BindGroup(buffers []DevicePtr, workspace DevicePtr, group *Group) (*Binding, error) {
	if group == nil {
		return nil, invalid("group is nil")
	}
	plan, err := p.h.acquire()
	if err != nil {
		return nil, err
	}
	defer p.h.done()
	over, err := group.h.acquire()
	if err != nil {
		return nil, err
	}
	defer group.h.done()
	var binding *C.sinter_binding
	err = group.gathers.in(func() error {
		var failed *C.sinter_error
		return check(C.sinter_plan_bind_group((*C.sinter_plan)(plan), C.uint32_t(len(buffers)),
			first[DevicePtr, C.sinter_device_ptr](buffers), C.sinter_device_ptr(workspace), (*C.sinter_group)(over),
			&binding, &failed), &failed)
	})
	if err != nil {
		return nil, err
	}
	return newBinding(binding), nil
}
