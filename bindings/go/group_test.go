package sinter

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two ranks as goroutines, on the fake driver's GPUs, of which TestMain asks for two.

func gpus(t *testing.T) [2]*Context {
	t.Helper()
	if os.Getenv("SINTER_LIBCUDA") == "" {
		t.Skip("SINTER_LIBCUDA names no driver that needs no GPU")
	}
	var contexts [2]*Context
	for device := range contexts {
		c, err := Open(Options{Device: device, CacheDir: String(""), LogLevel: LogOff})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		contexts[device] = c
	}
	return contexts
}

// meeting is an all-gather between two goroutines.
type meeting struct {
	lock  sync.Mutex
	all   *sync.Cond
	parts [2][]byte
	here  int
	round int
	calls int
}

func newMeeting() *meeting {
	m := &meeting{}
	m.all = sync.NewCond(&m.lock)
	return m
}

func (m *meeting) of(rank int) Exchange {
	return func(mine []byte) ([][]byte, error) {
		m.lock.Lock()
		defer m.lock.Unlock()
		m.calls++
		m.parts[rank] = mine
		m.meet()
		parts := [][]byte{m.parts[0], m.parts[1]}
		m.meet()
		return parts, nil
	}
}

func (m *meeting) meet() {
	round := m.round
	if m.here++; m.here == 2 {
		m.here = 0
		m.round++
		m.all.Broadcast()
	}
	for m.round == round {
		m.all.Wait()
	}
}

func onAll(work func(rank int)) {
	var done sync.WaitGroup
	for rank := 0; rank < 2; rank++ {
		done.Add(1)
		go func(rank int) {
			defer done.Done()
			work(rank)
		}(rank)
	}
	done.Wait()
}

func refuses(t *testing.T, err error, status Status, part string) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || failed.Status != status || !strings.Contains(failed.Message, part) {
		t.Errorf("%v, want %v with %q", err, status, part)
	}
}

var smallSlots = GroupOptions{SlotBytes: 1 << 16}

func makeBoth(t *testing.T, contexts [2]*Context) (*meeting, [2]*Group) {
	t.Helper()
	m := newMeeting()
	var groups [2]*Group
	onAll(func(rank int) {
		group, err := contexts[rank].NewGroup(rank, 2, m.of(rank), smallSlots)
		if err != nil {
			t.Error(err)
		}
		groups[rank] = group
	})
	if t.Failed() {
		t.FailNow()
	}
	return m, groups
}

func TestTwoRanksMeetLiveAbortAndClose(t *testing.T) {
	m, groups := makeBoth(t, gpus(t))
	for rank, group := range groups {
		if group.Rank() != rank || group.Size() != 2 || group.Err() != nil || group.Missed() != -1 {
			t.Error(rank, group.Rank(), group.Size(), group.Err(), group.Missed())
		}
	}
	if err := groups[1].Abort(); err != nil {
		t.Error(err)
	}
	refuses(t, groups[1].Err(), Aborted, "rank 1")
	if missed := groups[1].Missed(); missed != 1 {
		t.Error(missed)
	}
	before := m.calls
	for again := 0; again < 2; again++ {
		onAll(func(rank int) {
			if err := groups[rank].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if m.calls != before+2 {
		t.Error(m.calls - before)
	}
	refuses(t, groups[0].Err(), FailedPrecondition, "the group is closed")
	refuses(t, groups[0].Abort(), FailedPrecondition, "the group is closed")
}

func TestAPlanIsBoundToAGroupByOneExchange(t *testing.T) {
	contexts := gpus(t)
	b := NewBuilder()
	b.Output(b.AllReduce(b.Input(BF16, []int64{M, 64}), 2))
	chain, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	defer chain.Close()
	m, groups := makeBoth(t, contexts)
	before := m.calls
	var bindings [2]*Binding
	onAll(func(rank int) {
		plan, err := contexts[rank].Prepare(context.Background(), chain, 16)
		if err != nil {
			refuses(t, err, Unavailable, "")
			if !noCompiler() {
				t.Error(err)
			}
			return
		}
		defer plan.Close()
		_, err = plan.Bind([]DevicePtr{1 << 20, 2 << 20}, 0)
		refuses(t, err, FailedPrecondition, "sinter_plan_bind_group")
		_, err = plan.BindGroup([]DevicePtr{1 << 20, 2 << 20}, 0, nil)
		refuses(t, err, InvalidArgument, "group is nil")
		for again := 0; again < 2; again++ {
			bindings[rank].closeIfAny()
			if bindings[rank], err = plan.BindGroup([]DevicePtr{1 << 20, 2 << 20}, 0, groups[rank]); err != nil {
				t.Error(err)
				return
			}
		}
		if err := bindings[rank].Launch(0, 16, 0); err != nil {
			t.Error(err)
		}
	})
	if bindings[0] != nil && m.calls != before+2 {
		t.Error("the second bind knows the plan, but exchanges were", m.calls-before)
	}
	onAll(func(rank int) {
		if err := groups[rank].Close(); err != nil {
			t.Error(err)
		}
	})
	for _, binding := range bindings {
		if binding == nil {
			continue
		}
		refuses(t, binding.Launch(0, 16, 0), FailedPrecondition, "closed")
		binding.Close()
	}
}

func (b *Binding) closeIfAny() {
	if b != nil {
		b.Close()
	}
}

func TestMemoryMayBeSharedByFileDescriptors(t *testing.T) {
	contexts, m := gpus(t), newMeeting()
	onAll(func(rank int) {
		options := GroupOptions{SlotBytes: 1 << 16, Descriptors: true}
		group, err := contexts[rank].NewGroup(rank, 2, m.of(rank), options)
		if err != nil {
			t.Error(err)
			return
		}
		if err := group.Err(); err != nil {
			t.Error(err)
		}
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRanksOfOneProcessNeedNoExchange(t *testing.T) {
	contexts := gpus(t)
	groups, err := LocalGroups(contexts[:], smallSlots)
	if err != nil {
		t.Fatal(err)
	}
	if err := groups[0].Abort(); err != nil || groups[0].Missed() != 0 || groups[1].Size() != 2 {
		t.Error(err, groups[0].Missed(), groups[1].Size())
	}
	for _, group := range groups {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = LocalGroups(contexts[:1], smallSlots)
	refuses(t, err, InvalidArgument, "size is 1")
	_, err = LocalGroups(nil, smallSlots)
	refuses(t, err, InvalidArgument, "size is 0")
	_, err = LocalGroups([]*Context{contexts[0], nil}, smallSlots)
	refuses(t, err, InvalidArgument, "contexts[1] is nil")
	_, err = LocalGroups([]*Context{contexts[0], contexts[0]}, smallSlots)
	refuses(t, err, FailedPrecondition, "same GPU")
}

func TestRanksThatDifferAndBadOptionsAreNamed(t *testing.T) {
	contexts := gpus(t)
	m := newMeeting()
	onAll(func(rank int) {
		options := GroupOptions{SlotBytes: uint64(1+rank) << 16, Timeout: 5 * time.Millisecond}
		_, err := contexts[rank].NewGroup(rank, 2, m.of(rank), options)
		refuses(t, err, FailedPrecondition, "rank 1 has group.slot_bytes 131072, rank 0 has 65536")
	})
	made := func(size int, exchange Exchange, options GroupOptions) error {
		_, err := contexts[0].NewGroup(0, size, exchange, options)
		return err
	}
	refuses(t, made(1, m.of(0), smallSlots), InvalidArgument, "group.size is 1, must be 2 to 8")
	refuses(t, made(1<<40, m.of(0), smallSlots), InvalidArgument, "group.size")
	refuses(t, made(2, nil, smallSlots), InvalidArgument, "group.exchange is nil")
	peers := GroupOptions{Peers: []DevicePtr{1 << 20}, Timeout: -1}
	refuses(t, made(2, m.of(0), peers), InvalidArgument, "group.peers are 1, must be 2")
}

func TestAnExchangeMayFailPanicAndGiveTooLittle(t *testing.T) {
	contexts := gpus(t)
	broken := errors.New("no network")
	for _, one := range []struct {
		exchange Exchange
		status   Status
		message  string
	}{
		{func([]byte) ([][]byte, error) { return nil, broken }, Unknown, "group.exchange: no network"},
		{func([]byte) ([][]byte, error) { panic("in a callback") }, Unknown, "group.exchange panicked"},
		{func(mine []byte) ([][]byte, error) { return [][]byte{mine}, nil }, InvalidArgument, "gave 1 parts, must be 2"},
		{func(mine []byte) ([][]byte, error) { return [][]byte{mine, nil}, nil }, InvalidArgument, "gave 0 bytes of rank 1"},
	} {
		_, err := contexts[0].NewGroup(0, 2, one.exchange, smallSlots)
		refuses(t, err, one.status, one.message)
		if one.status == Unknown && strings.Contains(one.message, "network") && !errors.Is(err, broken) {
			t.Error("the exchange's error is not wrapped")
		}
	}
}
