package hostsim_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/hostsim"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func newSFTPOrError(c *ssh.Client) (*sftp.Client, error) {
	return sftp.NewClient(c, sftp.UseConcurrentWrites(true))
}

func network(ip string) plan.Network {
	return plan.Network{Name: "l2", Type: plan.NetworkL2Bridge, ManagementIP: ip, Prefix: "10.244.1.0/24", Gateway: "10.244.1.1"}
}

func TestPool(t *testing.T) {
	p := hostsim.NewPool(func(string, string) hostsim.Options { return hostsim.Options{} })
	t.Cleanup(p.Close)
	a, err := p.Create(t.Context(), "ns", "win-worker-abcde")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.Create(t.Context(), "ns", "win-worker-abcde"); again != a || err != nil {
		t.Errorf("created twice: %v", err)
	}
	b, err := p.Create(t.Context(), "other", "win-worker-abcde")
	if err != nil || b == a {
		t.Fatalf("machines of two namespaces are one: %v", err)
	}
	if name, err := a.Machine().System().Machine.Hostname(); name != "win-worker-abcde" || err != nil {
		t.Errorf("host name %q, %v", name, err)
	}
	ipA, _ := a.Addr()
	ipB, _ := b.Addr()
	if ipA == ipB {
		t.Errorf("two machines at %s", ipA)
	}
	for range 2 {
		if err := p.Delete(t.Context(), "ns", "win-worker-abcde"); err != nil {
			t.Fatal(err)
		}
	}
	if p.Get("ns", "win-worker-abcde") != nil || len(p.Hosts()) != 1 {
		t.Error("the machine is still there")
	}
	p.Close()
	if _, err := p.Create(t.Context(), "ns", "x"); !errors.Is(err, hostsim.ErrPoolClosed) {
		t.Errorf("Create after Close: %v", err)
	}
}

// 200 machines with one payload fit in one process: the bytes are there once.
func TestManyHostsShareOnePayload(t *testing.T) {
	const hosts, size = 200, 512 << 10
	key := newKey(t)
	data := randomBytes(size)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p := hostsim.NewPool(func(string, string) hostsim.Options {
		return hostsim.Options{AuthorizedKeys: []ssh.PublicKey{key.PublicKey()}}
	})
	t.Cleanup(p.Close)
	var work sync.WaitGroup
	limit := make(chan struct{}, 8)
	for i := range hosts {
		h, err := p.Create(t.Context(), "ns", fmt.Sprintf("win-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			if err := h.Machine().WriteFile(`C:\k\kubelet.exe`, data); err != nil {
				t.Error(err)
			}
			c, err := tryDial(h, key)
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close()
		})
	}
	work.Wait()
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(data)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d machines with %d KiB each: %d KiB of heap, %.0f KiB a machine beside the payload", hosts, size>>10, grown>>10, float64(grown-size)/hosts/1024)
	if grown > 30<<20 {
		t.Errorf("%d machines with one payload of %d KiB take %d KiB", hosts, size>>10, grown>>10)
	}
}
