package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"math"
	"unsafe"
)

// Digest is a SHA-256.
type Digest [32]byte

// Options of a context; a zero field follows its environment variable, read once, when the context is made. sinter.h says
// of each field what it means. String makes the pointers.
type Options struct {
	Device             int    // GPU ordinal of the driver; ignored with a target
	Target             string // "": use Device. "h200", "h100" or a model's text: prepare for it without a GPU
	LogLevel           LogLevel
	Log                func(level LogLevel, line string) // from any thread, until the context is closed; a panic is caught
	CacheDir           *string                           // "" is memory only
	DumpDir            *string
	NVRTCPath          *string
	DriverPath         *string
	Cache              Switch
	MustHit            Switch
	BatchInvariant     Switch
	Verify             Switch
	TuningSet          *string // a file; "" chooses by prediction only
	Packs              []string
	UnsignedPacks      Switch
	PackKeys           *string
	CacheReadOnly      Switch
	CacheStore         *string
	CacheMaxBytes      uint64
	Remote             *string
	RemoteNamespace    *string
	RemoteKeyFile      *string
	RemotePasswordFile *string
	RemotePublish      Switch
	MustHitVerified    Switch
	DenyToolchains     *string // NVRTC versions and build ids, separated by commas
	ModuleCacheBytes   uint64
	DeviceModel        *string // a file, as `sinter device --measure` prints one; "": the nearest built-in model
	SlotMeasure        Switch  // slots measure what prediction chose, in the background
	Measure            int     // candidates that prepares measure, to 64; 0: SINTER_MEASURE, else none; -1: none
}

// String is a field of Options that is set.
func String(text string) *string { return &text }

// Context is a device or a target: caches, configuration, counters. Safe for concurrent use.
type Context struct{ h *handle }

// Open opens a GPU, whose primary context is retained and made current for nobody, or a target without one.
func Open(given Options) (*Context, error) {
	var a arena
	defer a.free()
	options := (*C.sinter_context_options)(a.alloc(C.sizeof_sinter_context_options))
	fill(options, &given, &a)
	if a.err != nil {
		return nil, a.err
	}
	var log C.uintptr_t
	if given.Log != nil {
		log = register(given.Log)
		C.sinter_go_use_log(options, log)
	}
	var p *C.sinter_context
	var failed *C.sinter_error
	if err := check(C.sinter_context_create(options, &p, &failed), &failed); err != nil {
		unregister(log)
		return nil, err
	}
	return &Context{newHandle("the context", unsafe.Pointer(p), func(p unsafe.Pointer) {
		C.sinter_context_release((*C.sinter_context)(p))
		unregister(log)
	})}, nil
}

// OpenTarget opens a built-in model without a GPU; all else follows the environment.
func OpenTarget(target string) (*Context, error) { return Open(Options{Target: target}) }

func fill(options *C.sinter_context_options, given *Options, a *arena) {
	options.struct_size = C.sizeof_sinter_context_options
	options.device = number("context.device", given.Device, math.MinInt32, &a.err)
	options.log_level = C.sinter_log_level(given.LogLevel)
	if given.Target != "" {
		options.target = a.text("context.target", given.Target)
	}
	options.cache_dir = a.optional("context.cache_dir", given.CacheDir)
	options.dump_dir = a.optional("context.dump_dir", given.DumpDir)
	options.nvrtc_path = a.optional("context.nvrtc_path", given.NVRTCPath)
	options.driver_path = a.optional("context.driver_path", given.DriverPath)
	options.cache = C.sinter_switch(given.Cache)
	options.must_hit = C.sinter_switch(given.MustHit)
	options.batch_invariant = C.sinter_switch(given.BatchInvariant)
	options.verify = C.sinter_switch(given.Verify)
	options.tuning_set = a.optional("context.tuning_set", given.TuningSet)
	if given.Packs != nil {
		packs := unsafe.Slice((**C.char)(a.alloc(8*len(given.Packs)+8)), len(given.Packs)+1)
		for i, pack := range given.Packs {
			packs[i] = a.text("context.packs", pack)
		}
		options.packs = &packs[0]
		options.pack_count = C.uint32_t(len(given.Packs))
	}
	options.unsigned_packs = C.sinter_switch(given.UnsignedPacks)
	options.pack_keys = a.optional("context.pack_keys", given.PackKeys)
	options.cache_read_only = C.sinter_switch(given.CacheReadOnly)
	options.cache_store = a.optional("context.cache_store", given.CacheStore)
	options.cache_max_bytes = C.uint64_t(given.CacheMaxBytes)
	options.remote = a.optional("context.remote", given.Remote)
	options.remote_name_space = a.optional("context.remote_name_space", given.RemoteNamespace)
	options.remote_key_file = a.optional("context.remote_key_file", given.RemoteKeyFile)
	options.remote_password_file = a.optional("context.remote_password_file", given.RemotePasswordFile)
	options.remote_publish = C.sinter_switch(given.RemotePublish)
	options.must_hit_verified = C.sinter_switch(given.MustHitVerified)
	options.deny_toolchains = a.optional("context.deny_toolchains", given.DenyToolchains)
	options.module_cache_bytes = C.uint64_t(given.ModuleCacheBytes)
	options.device_model = a.optional("context.device_model", given.DeviceModel)
	options.slot_measure = C.sinter_switch(given.SlotMeasure)
	options.measure = number("context.measure", given.Measure, math.MinInt32, &a.err)
}

// Close gives the context back once the calls that use it have returned; plans live on. A second Close does nothing.
func (c *Context) Close() { c.h.close() }

// HasDevice is whether the context drives a GPU.
func (c *Context) HasDevice() bool {
	p, err := c.h.acquire()
	if err != nil {
		return false
	}
	defer c.h.done()
	return C.sinter_context_has_device((*C.sinter_context)(p)) != 0
}

// TuningDigest names the measurements that plans are chosen by; all zero without any.
func (c *Context) TuningDigest() (digest Digest, err error) {
	p, err := c.h.acquire()
	if err != nil {
		return digest, err
	}
	defer c.h.done()
	var failed *C.sinter_error
	err = check(C.sinter_context_get_tuning_digest((*C.sinter_context)(p), (*C.uint8_t)(&digest[0]), &failed), &failed)
	return digest, err
}

// DenyToolchains refuses kernels by the compiler that made them, from now on.
func (c *Context) DenyToolchains(entries string) error {
	p, err := c.h.acquire()
	if err != nil {
		return err
	}
	defer c.h.done()
	var a arena
	defer a.free()
	text := a.text("entries", entries)
	if a.err != nil {
		return a.err
	}
	var failed *C.sinter_error
	return check(C.sinter_context_deny_toolchains((*C.sinter_context)(p), text, &failed), &failed)
}
