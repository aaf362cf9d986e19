// A gated FFN from description to a checked result: Qwen3-0.6B's, for up to 128 rows, on a stream of the caller. Needs a
// Hopper GPU; exits 77 without one.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"sinter"
	"sinter/cuda"
	"sinter/examples/internal/gpus"
)

const (
	rows, k, n, l = 128, 1024, 3072, 1024
	untouched     = 0xff // bytes of a bf16 that no kernel writes: a NaN
)

// describe is y = (silu(x Wg) * (x Wu)) Wd, the weights as nn.Linear stores them: [out, in].
func describe() (*sinter.Chain, error) {
	b := sinter.NewBuilder()
	x := b.Input(sinter.BF16, []int64{sinter.M, k})
	gate, up := b.Constant(sinter.BF16, []int64{n, k}), b.Constant(sinter.BF16, []int64{n, k})
	down := b.Constant(sinter.BF16, []int64{l, n})
	b.Output(b.GatedFFN(x, gate, up, down, sinter.SiLU, sinter.GatedFFNOptions{}))
	return b.Finish()
}

// random is bf16 numbers in (-scale, scale), the same for the same seed.
func random(count int, scale float32, seed uint32) []byte {
	values := make([]byte, 2*count)
	for i := 0; i < count; i++ {
		seed = seed*1664525 + 1013904223
		number := scale * (float32(seed>>8)/8388608 - 1)
		binary.LittleEndian.PutUint16(values[2*i:], uint16(math.Float32bits(number)>>16))
	}
	return values
}

// ffn is a prepared chain with its memory.
type ffn struct {
	device    *cuda.Device
	stream    uintptr
	chain     *sinter.Chain
	binding   *sinter.Binding
	inputs    [][]byte
	addresses []sinter.DevicePtr
	workspace sinter.DevicePtr
}

func (f *ffn) prepare(ctx *sinter.Context) (err error) {
	if f.chain, err = describe(); err != nil {
		return err
	}
	plan, err := ctx.Prepare(context.Background(), f.chain, rows) // cache, or search and compile
	if err != nil {
		return err
	}
	defer plan.Close()
	if f.stream, err = f.device.NewStream(); err != nil {
		return err
	}
	f.inputs = [][]byte{random(rows*k, 1, 1), random(n*k, 0.05, 2), random(n*k, 0.05, 3), random(l*n, 0.05, 4)}
	for i := 0; i < plan.BufferCount(); i++ {
		info, err := f.chain.Buffer(i, rows)
		if err != nil {
			return err
		}
		address, err := f.device.Alloc(info.Bytes)
		if err != nil {
			return err
		}
		f.addresses = append(f.addresses, sinter.DevicePtr(address))
		if i < len(f.inputs) {
			if err := f.device.Upload(address, f.inputs[i], f.stream); err != nil {
				return err
			}
		}
	}
	workspace, err := f.device.Alloc(plan.WorkspaceSize())
	if err != nil {
		return err
	}
	f.workspace = sinter.DevicePtr(workspace)
	if err := plan.InitWorkspace(f.workspace, plan.WorkspaceSize(), sinter.Stream(f.stream)); err != nil {
		return err
	}
	f.binding, err = plan.Bind(f.addresses, f.workspace)
	return err
}

// run launches m rows and says whether they are the reference's, and the rest of y is as it was.
func (f *ffn) run(m int64) (bool, error) {
	y := bytes.Repeat([]byte{untouched}, 2*rows*l)
	at := uint64(f.addresses[len(f.inputs)])
	if err := f.device.Upload(at, y, f.stream); err != nil {
		return false, err
	}
	if err := f.binding.Launch(sinter.Stream(f.stream), m, 0); err != nil {
		return false, err
	}
	if err := f.device.Download(y, at, f.stream); err != nil {
		return false, err
	}
	check, err := f.chain.CheckReference(m, f.inputs, [][]byte{y})
	if err != nil {
		return false, err
	}
	behind := y[2*m*l:]
	touched := len(behind) - bytes.Count(behind, []byte{untouched})
	fmt.Printf("m = %d: relative error %.1e, bound %.1e; %d bytes written behind it\n", m, check.Relative,
		check.RelativeBound, touched)
	return check.Within && touched == 0, nil
}

// close gives everything back; the device must be idle.
func (f *ffn) close() {
	if f.binding != nil {
		f.binding.Close()
	}
	if f.chain != nil {
		f.chain.Close()
	}
	for _, address := range append(f.addresses, f.workspace) {
		_ = f.device.Free(uint64(address))
	}
	if f.stream != 0 {
		_ = f.device.DestroyStream(f.stream)
	}
}

func run(opened []gpus.GPU) (bool, error) {
	f := ffn{device: opened[0].Device}
	defer f.close()
	if err := f.prepare(opened[0].Context); err != nil {
		return false, err
	}
	right := true
	for _, m := range []int64{rows, 77, 1} {
		one, err := f.run(m)
		if err != nil {
			return false, err
		}
		right = right && one
	}
	return right, nil
}

func main() { gpus.Main(1, run) }
