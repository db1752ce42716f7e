package chaos

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/bed"
)

// watchEvery is how often the invariants are checked.
const watchEvery = 250 * time.Millisecond

// sentinel checks the invariants and tells each breach once.
type sentinel struct {
	st *storm

	mu   sync.Mutex
	told map[string]bool
	// looks and readies count what was looked at, so that a watcher that sees nothing is noticed.
	looks, readies int
}

// watch checks until ctx ends.
func (w *sentinel) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look checks everything once. A breach is told when it is seen first.
func (w *sentinel) look(ctx context.Context) {
	wrong := w.hosts(ctx)
	wrong = append(wrong, w.requests(ctx)...)
	for _, s := range w.st.subjects {
		wrong = append(wrong, s.breaches()...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	for _, x := range wrong {
		if !w.told[x] {
			w.told[x] = true
			w.st.t.Errorf("after %.1f s: %s", time.Since(w.st.began).Seconds(), x)
		}
	}
}

// hosts looks at every WindowsHost together with its machine. The API server may be away for a moment.
func (w *sentinel) hosts(ctx context.Context) (wrong []string) {
	var list v1alpha1.WindowsHostList
	if err := w.st.bed.Client.List(ctx, &list, client.InNamespace(bed.Namespace)); err != nil {
		return nil
	}
	bySubject := map[string]*subject{}
	for _, s := range w.st.subjects {
		bySubject[s.name] = s
	}
	for i := range list.Items {
		h := &list.Items[i]
		s := bySubject[h.Name]
		if s == nil {
			continue
		}
		seen := see(h, s.machine())
		if seen.Ready {
			w.readies++
		}
		if x := readyWithout(seen); len(x) > 0 && w.unchanged(ctx, h) {
			wrong = append(wrong, x...)
		}
	}
	return wrong
}

// unchanged reports whether the host is still what it was when it was read, so that the machine was read at the same time.
func (w *sentinel) unchanged(ctx context.Context, h *v1alpha1.WindowsHost) bool {
	now := &v1alpha1.WindowsHost{}
	return w.st.bed.Client.Get(ctx, client.ObjectKeyFromObject(h), now) == nil && now.ResourceVersion == h.ResourceVersion
}

// see is a host and its machine, nil while there is none.
func see(h *v1alpha1.WindowsHost, m *machine) seenHost {
	s := seenHost{Name: h.Name, Ready: meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionReady)}
	if p := h.Status.Plan; p != nil {
		s.Desired, s.Applied, s.Generation = p.Digest, p.Applied, p.Generation
	}
	if m == nil {
		return s
	}
	p, generation, err := m.plan()
	switch {
	case err == nil:
		s.HasMachine, s.Machine, s.MachineGeneration = true, p.Digest(), generation
	case errors.Is(err, fs.ErrNotExist):
		s.HasMachine = true
	}
	return s
}

// plan is what the machine has accepted, and its generation.
func (m *machine) plan() (plan.Plan, int64, error) {
	b, err := m.Machine().ReadFile(planFile)
	if err != nil {
		return plan.Plan{}, 0, err
	}
	var rec struct {
		Generation int64
		Plan       json.RawMessage
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return plan.Plan{}, 0, err
	}
	p, err := plan.Parse(rec.Plan)
	return p, rec.Generation, err
}

// requests looks at every certificate that was approved.
func (w *sentinel) requests(ctx context.Context) []string {
	var list certificatesv1.CertificateSigningRequestList
	if err := w.st.bed.Client.List(ctx, &list); err != nil {
		return nil
	}
	var lives []life
	for _, s := range w.st.subjects {
		s.mu.Lock()
		lives = append(lives, s.lives...)
		s.mu.Unlock()
	}
	var approved []seenRequest
	var wrong []string
	strangers := w.st.roster.strangers()
	for i := range list.Items {
		if r, ok := approval(&list.Items[i]); ok {
			approved = append(approved, r)
			if strangers[r.Name] {
				wrong = append(wrong, fmt.Sprintf("the stranger's request %s for node %s was approved", r.Name, r.Node))
			}
		}
	}
	slices.SortFunc(approved, func(a, b seenRequest) int { return strings.Compare(a.Name, b.Name) })
	return append(wrong, approvedWithout(approved, lives)...)
}

// approval is what there is to know of an approved request; false when it is not approved.
func approval(r *certificatesv1.CertificateSigningRequest) (seenRequest, bool) {
	at := slices.IndexFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved && c.Status == corev1.ConditionTrue
	})
	if at < 0 {
		return seenRequest{}, false
	}
	s := seenRequest{Name: r.Name, Approved: r.Status.Conditions[at].LastUpdateTime.Time}
	if block, _ := pem.Decode(r.Spec.Request); block != nil {
		if cr, err := x509.ParseCertificateRequest(block.Bytes); err == nil {
			s.Node = strings.TrimPrefix(cr.Subject.CommonName, "system:node:")
		}
	}
	if strings.HasPrefix(r.Spec.Username, "system:serviceaccount:") {
		s.Ticket = r.Spec.UID
	}
	return s, true
}

// breaches are those that its machines have seen.
func (s *subject) breaches() (wrong []string) {
	s.mu.Lock()
	eyes, m := slices.Clone(s.eyes), s.m
	s.mu.Unlock()
	for i, y := range eyes {
		seen := y.seen()
		for _, x := range wentBack(seen.entries) {
			wrong = append(wrong, fmt.Sprintf("machine %d of %s: %s", i+1, s.name, x))
		}
		if i+1 == len(eyes) && m != nil {
			for _, x := range twoWriters(m.wrote(seen.writers)) {
				wrong = append(wrong, fmt.Sprintf("machine %d of %s: %s", i+1, s.name, x))
			}
		}
	}
	return wrong
}

// wrote is what connections changed; services belong to none.
func (m *machine) wrote(all []writer) (out []wrote) {
	for _, w := range all {
		if c, ok := m.Owner(w.pid); ok {
			out = append(out, wrote{Connection: c, Path: w.path, At: w.at})
		}
	}
	return out
}

// stacks counts all goroutines of this process by what made them.
func stacks() map[string]int {
	b := make([]byte, 1<<20)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) {
			return goroutines(string(b[:n]))
		}
		b = make([]byte, 2*len(b))
	}
}

// held are the established connections of a process to machines, by their address.
func held(pid, port int) (map[netip.Addr]int, error) {
	dir := filepath.Join("/proc", fmt.Sprint(pid))
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, err
	}
	inodes := map[string]bool{}
	for _, fd := range fds {
		// One that was closed meanwhile is none.
		link, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	table, err := os.ReadFile(filepath.Join(dir, "net", "tcp"))
	if err != nil {
		return nil, err
	}
	return peers(string(table), uint16(port), inodes), nil
}

// files are those in a folder, deep down.
func files(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// settling looks until nothing is wrong any more, for a while.
func settling(ctx context.Context, d time.Duration, look func() []string) []string {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wrong []string
	_ = poll(ctx, func() (bool, string) {
		wrong = look()
		return len(wrong) == 0, ""
	})
	return wrong
}

// sortedKeys are the keys of a count, in order.
func sortedKeys(m map[trial]int) []trial { return slices.Sorted(maps.Keys(m)) }
