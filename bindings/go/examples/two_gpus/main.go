// A chain over two GPUs of this machine, whose ranks are goroutines. Columns are gathered and summed; each rank outputs its part
// of the sum. Needs two Hopper GPUs; exits 77 without.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"sinter"
	"sinter/examples/internal/gpus"
)

const rows, k, ranks = 100, 512, 2

// describe outputs the columns of all ranks, and this rank's columns of their sum.
func describe() (*sinter.Chain, error) {
	b := sinter.NewBuilder()
	x := b.Input(sinter.BF16, []int64{sinter.M, k})
	b.Output(b.AllGather(x, 1, ranks))
	b.Output(b.ReduceScatter(b.AllReduce(x, ranks), 1, ranks))
	return b.Finish()
}

// xOf is small integers, of which sums are exact.
func xOf(rank, row, column int) float32 { return float32((rank*5 + row*3 + column) % 7) }

func bf16(number float32) uint16 { return uint16(math.Float32bits(number) >> 16) }

// isRight is whether the i-th bf16 of `bytes` is want(i).
func isRight(bytes []byte, want func(i int) float32) bool {
	for i := 0; i < len(bytes)/2; i++ {
		if binary.LittleEndian.Uint16(bytes[2*i:]) != bf16(want(i)) {
			return false
		}
	}
	return true
}

// run prepares, binds and launches one rank, and says whether its outputs are right for each number of rows.
func run(rank int, gpu gpus.GPU, group *sinter.Group) (right bool, err error) {
	device := gpu.Device
	chain, err := describe()
	if err != nil {
		return false, err
	}
	defer chain.Close()
	plan, err := gpu.Context.Prepare(context.Background(), chain, rows)
	if err != nil {
		return false, err
	}
	defer plan.Close()
	stream, err := device.NewStream()
	if err != nil {
		return false, err
	}
	defer func() { _ = device.DestroyStream(stream) }()
	var at [4]uint64 // x, all columns, a part of the sum, the workspace
	for i, bytes := range []uint64{2 * rows * k, 2 * rows * k * ranks, 2 * rows * k / ranks, plan.WorkspaceSize()} {
		if at[i], err = device.Alloc(bytes); err != nil {
			return false, err
		}
		defer func(address uint64) { _ = device.Free(address) }(at[i])
	}
	x := make([]byte, 2*rows*k)
	for i := 0; i < rows*k; i++ {
		binary.LittleEndian.PutUint16(x[2*i:], bf16(xOf(rank, i/k, i%k)))
	}
	if err := device.Upload(at[0], x, stream); err != nil {
		return false, err
	}
	workspace := sinter.DevicePtr(at[3])
	if err := plan.InitWorkspace(workspace, plan.WorkspaceSize(), sinter.Stream(stream)); err != nil {
		return false, err
	}
	buffers := []sinter.DevicePtr{sinter.DevicePtr(at[0]), sinter.DevicePtr(at[1]), sinter.DevicePtr(at[2])}
	binding, err := plan.BindGroup(buffers, workspace, group)
	if err != nil {
		return false, err
	}
	defer binding.Close()
	right = true
	for _, m := range []int{rows, 17, 1} {
		if err := binding.Launch(sinter.Stream(stream), int64(m), 0); err != nil {
			return false, err
		}
		all, part := make([]byte, 2*m*k*ranks), make([]byte, 2*m*k/ranks)
		if err := device.Download(all, at[1], stream); err != nil {
			return false, err
		}
		if err := device.Download(part, at[2], stream); err != nil {
			return false, err
		}
		if err := group.Err(); err != nil { // after a synchronisation
			return false, err
		}
		right = right && isRight(all, func(i int) float32 {
			column := i % (k * ranks)
			return xOf(column/k, i/(k*ranks), column%k)
		})
		// Each rank has the sum over ranks, of which the scatter makes a sum again.
		right = right && isRight(part, func(i int) float32 {
			row, column := i/(k/ranks), i%(k/ranks)+rank*(k/ranks)
			return 2 * (xOf(0, row, column) + xOf(1, row, column))
		})
	}
	fmt.Printf("rank %d: right %t\n", rank, right)
	return right, nil
}

// both runs the ranks at once.
func both(devices []gpus.GPU) (bool, error) {
	contexts := []*sinter.Context{devices[0].Context, devices[1].Context}
	groups, err := sinter.LocalGroups(contexts, sinter.GroupOptions{})
	if err != nil {
		return false, err
	}
	var right [ranks]bool
	var errs [ranks]error
	var done sync.WaitGroup
	for rank := range groups {
		done.Add(1)
		go func(rank int) {
			defer done.Done()
			right[rank], errs[rank] = run(rank, devices[rank], groups[rank])
		}(rank)
	}
	done.Wait()
	for _, group := range groups {
		if err := group.Close(); err != nil {
			return false, err
		}
	}
	for _, err := range errs {
		if err != nil {
			return false, err
		}
	}
	return right[0] && right[1], nil
}

func main() { gpus.Main(ranks, both) }
