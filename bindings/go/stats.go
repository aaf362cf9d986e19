package sinter

/*
#include "shim.h"
*/
import "C"

// statsWords is how many 8-byte words the library's struct has: one for each field of Stats.
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
	return statsOf(&s), nil
}
