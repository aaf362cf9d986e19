package sinter

/*
#include "shim.h"
*/
import "C"

// Stats are counters since the context was made; sinter.h says what each counts. Times are microseconds unless named
// otherwise.
type Stats struct {
	NVRTCLoaded          bool
	Prepares             uint64
	PlanHits             uint64
	Searched             uint64
	KernelsCompiled      uint64
	KernelHits           uint64
	KernelsLoaded        uint64
	Launches             uint64
	Waits                uint64
	WrongKernels         uint64
	NonResidentFallbacks uint64
	CacheMemoryHits      uint64
	CacheLocalHits       uint64
	CachePuts            uint64
	CachePutFailures     uint64
	CacheQuarantined     uint64
	CacheMisses          uint64
	CacheAbsent          uint64
	CacheDamaged         uint64
	CacheForeignArch     uint64
	CacheOtherFormat     uint64
	CacheOtherToolchain  uint64
	CacheRefusedOwner    uint64
	CacheInQuarantine    uint64
	CacheDisabled        uint64
	CacheIOErrors        uint64
	SearchUs             float64
	CompileUs            float64
	TunedPlans           uint64
	TunedRefused         uint64
	CachePackHits        uint64
	CachePacksOpen       uint64
	CachePacksRefused    uint64
	CachePutsDropped     uint64
	CacheEvicted         uint64
	CacheRemoteHits      uint64
	CacheRemotePuts      uint64
	CacheRemoteErrors    uint64
	CacheRemoteDown      uint64
	CacheRemoteOpened    uint64
	CompileSecondsSaved  float64
	GPUTimeSavedUs       float64
	ModulesLoaded        uint64
	ModuleBytes          uint64
	ModulesUnloaded      uint64
	SlotsBuilding        uint64
	SlotUpgrades         uint64
	SlotFailures         uint64
}

// statsWords is how many 8-byte words the library's struct has: one for each field above.
const statsWords = C.sizeof_sinter_stats / 8

// Metrics is the counters as Prometheus text, format 0.0.4.
func (c *Context) Metrics() (string, error) {
	p, err := c.h.acquire()
	if err != nil {
		return "", err
	}
	defer c.h.done()
	return longText(func(capacity C.size_t, text *C.char, size *C.size_t, failed **C.sinter_error) C.sinter_status {
		return C.sinter_context_write_metrics((*C.sinter_context)(p), capacity, text, size, failed)
	})
}

// Stats reads the counters.
func (c *Context) Stats() (Stats, error) {
	p, err := c.h.acquire()
	if err != nil {
		return Stats{}, err
	}
	defer c.h.done()
	var s C.sinter_stats
	s.struct_size = C.sizeof_sinter_stats
	var failed *C.sinter_error
	if err := check(C.sinter_context_get_stats((*C.sinter_context)(p), &s, &failed), &failed); err != nil {
		return Stats{}, err
	}
	return Stats{
		NVRTCLoaded:          s.nvrtc_loaded != 0,
		Prepares:             uint64(s.prepares),
		PlanHits:             uint64(s.plan_hits),
		Searched:             uint64(s.searched),
		KernelsCompiled:      uint64(s.kernels_compiled),
		KernelHits:           uint64(s.kernel_hits),
		KernelsLoaded:        uint64(s.kernels_loaded),
		Launches:             uint64(s.launches),
		Waits:                uint64(s.waits),
		WrongKernels:         uint64(s.wrong_kernels),
		NonResidentFallbacks: uint64(s.non_resident_fallbacks),
		CacheMemoryHits:      uint64(s.cache_memory_hits),
		CacheLocalHits:       uint64(s.cache_local_hits),
		CachePuts:            uint64(s.cache_puts),
		CachePutFailures:     uint64(s.cache_put_failures),
		CacheQuarantined:     uint64(s.cache_quarantined),
		CacheMisses:          uint64(s.cache_misses),
		CacheAbsent:          uint64(s.cache_absent),
		CacheDamaged:         uint64(s.cache_damaged),
		CacheForeignArch:     uint64(s.cache_foreign_arch),
		CacheOtherFormat:     uint64(s.cache_other_format),
		CacheOtherToolchain:  uint64(s.cache_other_toolchain),
		CacheRefusedOwner:    uint64(s.cache_refused_owner),
		CacheInQuarantine:    uint64(s.cache_in_quarantine),
		CacheDisabled:        uint64(s.cache_disabled),
		CacheIOErrors:        uint64(s.cache_io_errors),
		SearchUs:             float64(s.search_us),
		CompileUs:            float64(s.compile_us),
		TunedPlans:           uint64(s.tuned_plans),
		TunedRefused:         uint64(s.tuned_refused),
		CachePackHits:        uint64(s.cache_pack_hits),
		CachePacksOpen:       uint64(s.cache_packs_open),
		CachePacksRefused:    uint64(s.cache_packs_refused),
		CachePutsDropped:     uint64(s.cache_puts_dropped),
		CacheEvicted:         uint64(s.cache_evicted),
		CacheRemoteHits:      uint64(s.cache_remote_hits),
		CacheRemotePuts:      uint64(s.cache_remote_puts),
		CacheRemoteErrors:    uint64(s.cache_remote_errors),
		CacheRemoteDown:      uint64(s.cache_remote_down),
		CacheRemoteOpened:    uint64(s.cache_remote_opened),
		CompileSecondsSaved:  float64(s.compile_seconds_saved),
		GPUTimeSavedUs:       float64(s.gpu_time_saved_us),
		ModulesLoaded:        uint64(s.modules_loaded),
		ModuleBytes:          uint64(s.module_bytes),
		ModulesUnloaded:      uint64(s.modules_unloaded),
		SlotsBuilding:        uint64(s.slots_building),
		SlotUpgrades:         uint64(s.slot_upgrades),
		SlotFailures:         uint64(s.slot_failures),
	}, nil
}
