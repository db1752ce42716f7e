package windows

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
)

// ReportVersion is the format of a Report.
const ReportVersion = "evidence.windowsmachine.dev/v1"

// maxReport bounds a report that is read, in bytes.
const maxReport = 1 << 20

// ErrReport is wrapped by every error about the content of a report.
var ErrReport = errors.New("not a report of test/windows")

// Platform is what the exercises ran on.
type Platform string

// The platforms.
const (
	// PlatformWindows is Windows itself.
	PlatformWindows Platform = "windows"
	// PlatformWine is Wine, with shims or without.
	PlatformWine Platform = "wine"
	// PlatformFake is pkg/agent/system/fake.
	PlatformFake Platform = "fake"
)

// Subjects beside the steps of a plan, whose names are plan.Step*.
const (
	// SubjectFacts is what the machine says of itself.
	SubjectFacts = "facts"
	// SubjectAccess is whether access control lists are there and can be read back.
	SubjectAccess = "access-control"
	// SubjectService is plan.StepServicePrefix with any service.
	SubjectService = plan.StepServicePrefix + "service"
	// SubjectOrder is whether the service manager starts what a service depends on.
	SubjectOrder = "service-order"
	// SubjectRecovery is whether the service manager starts a service again that died.
	SubjectRecovery = "service-recovery"
)

// Subjects are those that a report must have, in order.
func Subjects() []string {
	return []string{
		SubjectFacts, plan.StepCredentials, SubjectAccess, plan.StepEnvironment, plan.StepFeatures, plan.StepDirectories, plan.StepDefender,
		plan.StepFiles, plan.StepCertificates, plan.StepFirewall, plan.StepNetwork, plan.StepRoutes, SubjectService, SubjectOrder, SubjectRecovery,
	}
}

// Outcome is what came of an exercise.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// NotRun: the machine has not what it takes, or nobody asked for it; Why says which.
	NotRun Outcome = "not-run"
)

// Result is one line of a report.
type Result struct {
	// Step is one of Subjects.
	Step    string  `json:"step"`
	Outcome Outcome `json:"outcome"`
	// Why is the failure, or why it was not run.
	Why string `json:"why,omitempty"`
	// Changed are the objects that were changed; Undone is whether all of them were taken back.
	Changed []string `json:"changed,omitempty"`
	Undone  bool     `json:"undone,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Report is one run.
type Report struct {
	APIVersion string   `json:"apiVersion"`
	Platform   Platform `json:"platform"`
	// PlatformVersion is that of Wine; Build is Windows' build and update revision, "20348.2402", as Wine pretends it to be.
	PlatformVersion string    `json:"platformVersion,omitempty"`
	Build           string    `json:"build"`
	Started         time.Time `json:"started"`
	Results         []Result  `json:"results"`
}

// Failed names the subjects that failed.
func (r Report) Failed() []string {
	var out []string
	for _, res := range r.Results {
		if res.Outcome == Failed {
			out = append(out, res.Step)
		}
	}
	return out
}

// Find returns the result of a subject.
func (r Report) Find(step string) (Result, bool) {
	i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Step == step })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

// Encode is the report as it is written to a file.
func (r Report) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding a report: %w", err)
	}
	return append(b, '\n'), nil
}

// ReadReport reads a report strictly.
func ReadReport(path string) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	r, err := parseReport(f)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func parseReport(in io.Reader) (Report, error) {
	d := json.NewDecoder(io.LimitReader(in, maxReport))
	d.DisallowUnknownFields()
	var r Report
	if err := d.Decode(&r); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Report{}, fmt.Errorf("%w: data after the end, or more than %d bytes", ErrReport, maxReport)
	}
	return r, r.validate()
}

func (r Report) validate() error {
	switch {
	case r.APIVersion != ReportVersion:
		return fmt.Errorf("%w: apiVersion %q is not %q", ErrReport, r.APIVersion, ReportVersion)
	case !slices.Contains([]Platform{PlatformWindows, PlatformWine, PlatformFake}, r.Platform):
		return fmt.Errorf("%w: unknown platform %q", ErrReport, r.Platform)
	case r.Build == "" || r.Started.IsZero():
		return fmt.Errorf("%w: build and started must be there", ErrReport)
	}
	var have []string
	for _, res := range r.Results {
		have = append(have, res.Step)
		if !slices.Contains([]Outcome{Passed, Failed, NotRun}, res.Outcome) || res.Outcome != Passed && res.Why == "" {
			return fmt.Errorf("%w: %s has outcome %q and why %q", ErrReport, res.Step, res.Outcome, res.Why)
		}
	}
	if !slices.Equal(have, Subjects()) {
		return fmt.Errorf("%w: it is about %v, not %v", ErrReport, have, Subjects())
	}
	return nil
}
