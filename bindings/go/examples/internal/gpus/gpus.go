// Package gpus opens the GPUs that an example needs, or skips it.
package gpus

import (
	"errors"
	"fmt"
	"os"

	"sinter"
	"sinter/cuda"
)

const (
	skipped       = 77
	invalidDevice = 101 // CUDA_ERROR_INVALID_DEVICE
)

// GPU is one of this machine with a context for it.
type GPU struct {
	Device  *cuda.Device
	Context *sinter.Context
}

// Main runs an example on the first `count` GPUs of this machine, and exits: with 0 where it is right, with 77 where there
// are no such GPUs, or no Hopper ones, else with 1.
func Main(count int, run func(gpus []GPU) (right bool, err error)) {
	gpus, err := open(count)
	if err != nil && isNone(err) {
		closeAll(gpus)
		fmt.Printf("skipped: it needs %d of Hopper: %v\n", count, err)
		os.Exit(skipped)
	}
	right := false
	if err == nil {
		right, err = run(gpus)
	}
	if closed := closeAll(gpus); err == nil {
		err = closed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !right {
		os.Exit(1)
	}
}

func isNone(err error) bool {
	var none *cuda.Unavailable
	var driver *cuda.Error
	var context *sinter.Error
	return errors.As(err, &none) || errors.As(err, &driver) && driver.Result == invalidDevice ||
		errors.As(err, &context) && context.Status == sinter.FailedPrecondition
}

// open gives what it has opened back also where it fails.
func open(count int) ([]GPU, error) {
	var gpus []GPU
	for len(gpus) < count {
		device, err := cuda.Open(len(gpus))
		if err != nil {
			return gpus, err
		}
		gpus = append(gpus, GPU{Device: device})
		if gpus[len(gpus)-1].Context, err = sinter.Open(sinter.Options{Device: len(gpus) - 1}); err != nil {
			return gpus, err
		}
	}
	return gpus, nil
}

func closeAll(gpus []GPU) (err error) {
	for _, gpu := range gpus {
		if gpu.Context != nil {
			gpu.Context.Close()
		}
		if closed := gpu.Device.Close(); err == nil {
			err = closed
		}
	}
	return err
}
