package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
	"github.com/windowsmachine/operator/test/machineapi"
)

const (
	root = "../.."
	// smallScale and largeScale are the sizes of the two beds' payloads.
	smallScale, largeScale = 0.01, 0.05
	// startPatience bounds the start of a bed, the build of the operator included.
	startPatience = 4 * time.Minute
)

var (
	_ = flag.Bool("update", false, "write the golden files")
	// run is set by TestMain, before any test.
	run *suite
)

// suite is what the tests of one run share.
type suite struct {
	dir, agent string
	// operator builds the program, with the race detector.
	operator func() (string, error)
	// calm is the bed whose operator runs from the beginning to the end; rough is the one whose operator is stopped and killed.
	calm, rough *table
	// ips hands out the addresses of Machines.
	ips addresses
}

// table is a bed that is started by the first test that asks for it.
type table struct {
	get func() (*bed.Bed, error)
	// bed is what has to be closed, nil when nothing was started.
	bed *bed.Bed
	// alone is held by a test during which the operator has to run, or may be stopped.
	alone sync.Mutex
}

// reserve keeps the table for one test at a time; the returned function ends it.
func (t *table) reserve() (free func()) {
	t.alone.Lock()
	return t.alone.Unlock
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests mostly wait, for machines and for each other's backoff: the number of processors is no measure of how many may run.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	machineapi.SetLogger(logr.Discard())
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	dir, err := os.MkdirTemp("", "windowsmachine-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	run = newSuite(dir)
	code := m.Run()
	for _, t := range []*table{run.calm, run.rough} {
		if err := t.close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing a bed:", err)
			code = 1
		}
	}
	return code
}

func newSuite(dir string) *suite {
	s := &suite{dir: dir, agent: filepath.Join(dir, "wmcb.exe")}
	s.operator = sync.OnceValues(s.build)
	s.calm = s.table(bed.Options{Scale: smallScale, MachineAPI: true, Machine: s.ips.choose})
	s.rough = s.table(bed.Options{Scale: largeScale})
	return s
}

// build makes the operator, and a file that stands for the agent: simulated machines know it by its bytes and run the real one.
func (s *suite) build() (string, error) {
	if err := os.WriteFile(s.agent, []byte("stands for the agent"), 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(s.dir, "windows-machine-operator")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", program, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the operator: %w: %s", err, out)
	}
	return program, nil
}

func (s *suite) table(o bed.Options) *table {
	t := &table{}
	t.get = sync.OnceValues(func() (*bed.Bed, error) {
		ctx, cancel := context.WithTimeout(context.Background(), startPatience)
		defer cancel()
		var err error
		if o.Operator, err = s.operator(); err != nil {
			return nil, err
		}
		o.Root, o.Agent, o.PodCIDR = root, s.agent, "10.244.0.0/16"
		if t.bed, err = bed.Start(ctx, o); err != nil {
			return nil, err
		}
		return t.bed, errors.Join(t.bed.StartOperator(ctx, "--debug"), furnish(ctx, t.bed))
	})
	return t
}

// furnish makes the profiles that tests share, and waits until the operator knows them.
func furnish(ctx context.Context, b *bed.Bed) error {
	if err := b.ApplyProfile(ctx); err != nil {
		return err
	}
	port, err := b.Port()
	if err != nil {
		return err
	}
	for _, p := range []*v1alpha1.WindowsNodeProfile{customProfile(port), bridgeProfile(port)} {
		if err := b.Client.Create(ctx, p); err != nil {
			return err
		}
	}
	for _, name := range []string{v1alpha1.DefaultProfile, profileCustom, profileBridge} {
		if err := untilComplete(ctx, b, name); err != nil {
			return err
		}
	}
	return nil
}

func untilComplete(ctx context.Context, b *bed.Bed, profile string) error {
	return poll(ctx, func() (bool, string) {
		var p v1alpha1.WindowsNodeProfile
		if err := b.Client.Get(ctx, client.ObjectKey{Name: profile}, &p); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionFactsComplete)
		if c == nil {
			return false, "profile " + profile + " was not looked at"
		}
		return c.Status == metav1.ConditionTrue, c.Message
	})
}

// close ends the bed; a data race or a panic that the operator survived is an error.
func (t *table) close() error {
	if t.bed == nil {
		return nil
	}
	err := t.bed.StopOperator()
	log, logErr := os.ReadFile(t.bed.OperatorLog())
	for _, bad := range []string{"DATA RACE", "panic"} {
		if i := bytes.Index(log, []byte(bad)); i >= 0 {
			err = errors.Join(err, fmt.Errorf("the operator's log has: %s", log[max(0, i-200):min(len(log), i+3000)]))
		}
	}
	return errors.Join(err, logErr, t.bed.Close())
}

// addresses gives Machines addresses of their own, outside of those that other machines get, so that one can be used again.
type addresses struct {
	mu   sync.Mutex
	n    int
	next string
}

// again has all Machines from now on try this address; "" ends it.
func (a *addresses) again(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = ip
}

func (a *addresses) choose(_ string, o *hostsim.Options) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != "" {
		o.IP = a.next
		return
	}
	// One that is taken by another process is an error, after which the Machine controller comes again and gets the next.
	a.n++
	o.IP = fmt.Sprintf("127.0.101.%d", 1+a.n%250)
}
