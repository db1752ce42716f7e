package openshift

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

	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
	"github.com/windowsmachine/operator/test/machineapi"
)

const (
	root = "../../.."
	// scale is the size of the payload.
	scale = 0.01
	// startPatience bounds the start of a bed, the build of the operator included.
	startPatience = 4 * time.Minute
	// azureUser is the only account of the machines that Machines get.
	azureUser = "capi"
)

var (
	_ = flag.Bool("update", false, "write the golden files")
	// run is set by TestMain, before any test.
	run *suite
)

// suite is what the tests of one run share.
type suite struct {
	dir, agent string
	// azure has the operator and machines; aws has neither, and belongs to one test at a time.
	azure, aws *table
}

// table is a bed that is started by the first test that asks for it.
type table struct {
	get func() (*bed.Bed, error)
	// bed is what has to be closed, nil when nothing was started.
	bed *bed.Bed
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests mostly wait for machines: the number of processors is no measure of how many may run.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	machineapi.SetLogger(logr.Discard())
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	dir, err := os.MkdirTemp("", "windowsmachine-openshift-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	run, err = newSuite(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for _, t := range []*table{run.azure, run.aws} {
		if err := t.close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing a bed:", err)
			code = 1
		}
	}
	return code
}

func newSuite(dir string) (*suite, error) {
	s := &suite{dir: dir, agent: filepath.Join(dir, "wmcb.exe")}
	// A file that stands for the agent: simulated machines know it by its bytes and run the real one.
	if err := os.WriteFile(s.agent, []byte("stands for the agent"), 0o600); err != nil {
		return nil, err
	}
	s.azure, s.aws = &table{}, &table{}
	s.azure.get = sync.OnceValues(func() (*bed.Bed, error) { return s.start(s.azure, "Azure", s.operate) })
	s.aws.get = sync.OnceValues(func() (*bed.Bed, error) { return s.start(s.aws, "AWS", nil) })
	return s, nil
}

// start starts a bed; operate, when there is one, starts the operator on it.
func (s *suite) start(t *table, platform string, operate func(context.Context, *bed.Bed) error) (*bed.Bed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	o := bed.Options{
		Root: root, Agent: s.agent, Operator: filepath.Join(s.dir, "windows-machine-operator"), Scale: scale, OpenShift: platform,
		MachineAPI: operate != nil,
		Machine:    func(_ string, o *hostsim.Options) { o.Users = []string{azureUser} },
	}
	if operate != nil {
		if err := build(ctx, o.Operator); err != nil {
			return nil, err
		}
	}
	var err error
	if t.bed, err = bed.Start(ctx, o); err != nil || operate == nil {
		return t.bed, err
	}
	return t.bed, operate(ctx, t.bed)
}

// build makes the operator, with the race detector.
func build(ctx context.Context, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-race", "-o", program, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the operator: %w: %s", err, out)
	}
	return nil
}

// operate makes the profile that Machines get, and starts the operator.
func (s *suite) operate(ctx context.Context, b *bed.Bed) error {
	port, err := b.Port()
	if err != nil {
		return err
	}
	if err := b.Client.Create(ctx, defaultProfile(port)); err != nil {
		return err
	}
	return b.StartOperator(ctx, "--debug")
}

// close ends the bed; a data race or a panic that the operator survived is an error.
func (t *table) close() error {
	if t.bed == nil {
		return nil
	}
	err := t.bed.StopOperator()
	log, logErr := os.ReadFile(t.bed.OperatorLog())
	if errors.Is(logErr, os.ErrNotExist) {
		logErr = nil
	}
	for _, bad := range []string{"DATA RACE", "panic"} {
		if i := bytes.Index(log, []byte(bad)); i >= 0 {
			err = errors.Join(err, fmt.Errorf("the operator's log has: %s", log[max(0, i-200):min(len(log), i+3000)]))
		}
	}
	return errors.Join(err, logErr, t.bed.Close())
}
