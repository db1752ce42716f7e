package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// noise is how many bytes around the agent's own lines are tolerated, for example what a login script prints.
	noise = 64 << 10
	// maxReports bounds all that apply, status and remove may print, in bytes.
	maxReports = 64 << 20
	// maxStderr bounds what is kept of standard error, in bytes.
	maxStderr = 2 << 10
	// maxNumber bounds what a machine counts: sums of it do not overflow, and JSON readers that know floats only keep it.
	maxNumber = 1 << 53
)

// errFlood: the machine prints more than the agent ever would.
var errFlood = errors.New("the machine sends too much output")

// lines cuts output into lines and hands over those that can be the agent's: at most max bytes, beginning with a brace. Longer
// lines are skipped; more than total bytes are an error, which ends the program.
type lines struct {
	max   int
	total int64
	take  func(line []byte)

	part []byte
	skip bool
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	if l.total -= int64(len(p)); l.total < 0 {
		return 0, errFlood
	}
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		l.add(line)
		if whole {
			l.flush()
		}
		rest = after
	}
	return len(p), nil
}

func (l *lines) add(b []byte) {
	if l.skip || len(l.part)+len(b) > l.max+1 {
		l.skip, l.part = true, nil
		return
	}
	l.part = append(l.part, b...)
}

// flush ends the line under way; it is called once more after the last Write.
func (l *lines) flush() {
	line := bytes.TrimSpace(bytes.TrimPrefix(l.part, []byte("\xef\xbb\xbf")))
	if !l.skip && len(line) <= l.max && bytes.HasPrefix(line, []byte("{")) {
		l.take(line)
	}
	l.skip, l.part = false, l.part[:0]
}

// answer is what an agent's line may be; at most one field is set.
type answer struct {
	report  *plan.Report
	facts   *plan.HostFacts
	refusal *Refusal
}

// parseAnswer reads a line of the agent; ok is false for any other. Bytes that are not UTF-8 become U+FFFD (encoding/json), since
// a machine may print in its code page.
func parseAnswer(line []byte) (a answer, ok bool) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Code       string `json:"code"`
		Detail     string `json:"detail"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return answer{}, false
	}
	switch {
	case head.APIVersion == plan.ReportVersion:
		var r plan.Report
		if err := json.Unmarshal(line, &r); err != nil {
			return answer{}, false
		}
		return answer{report: cleanReport(r)}, true
	case head.APIVersion == plan.FactsVersion:
		var f plan.HostFacts
		if err := json.Unmarshal(line, &f); err != nil {
			return answer{}, false
		}
		return answer{facts: cleanFacts(f)}, true
	case head.APIVersion == "" && head.Code != "":
		return answer{refusal: &Refusal{Code: cleanCode(head.Code), Detail: clean(head.Detail)}}, true
	}
	return answer{}, false
}

// cleanFacts bounds everything that a machine says of itself, since it is kept as long as the session and ends in the status. Names of
// adapters keep their letters: Windows is localised.
func cleanFacts(f plan.HostFacts) *plan.HostFacts {
	f.AgentVersion, f.AgentDigest, f.ServiceAgent = clean(f.AgentVersion), clean(f.AgentDigest), clean(f.ServiceAgent)
	f.Hostname, f.BootID = clean(f.Hostname), clean(f.BootID)
	f.Build, f.UBR = int(bounded(f.Build, math.MaxInt32)), int(bounded(f.UBR, math.MaxInt32))
	f.Capabilities, f.Features = cleanList(f.Capabilities), cleanList(f.Features)
	f.ForeignServices, f.HaveBlobs = cleanList(f.ForeignServices), cleanList(f.HaveBlobs)
	f.Addresses = slices.Clone(f.Addresses[:min(len(f.Addresses), plan.MaxItems)])
	for i := range f.Addresses {
		a := &f.Addresses[i]
		a.Adapter, a.Prefix = cut(a.Adapter), clean(a.Prefix)
	}
	if f.API != nil {
		f.API = &plan.ProbeResult{Code: cleanCode(f.API.Code), Detail: clean(f.API.Detail)}
	}
	f.Survey = cleanSurvey(f.Survey)
	f.Report = *cleanReport(f.Report)
	return &f
}

// cleanSurvey bounds what a machine says of what stands in the way. Names of adapters keep their letters, as above.
func cleanSurvey(s plan.Survey) plan.Survey {
	s.InstallationType, s.NextHostname = clean(s.InstallationType), clean(s.NextHostname)
	s.RestartPending = cleanList(s.RestartPending)
	s.Teams = slices.Clone(s.Teams[:min(len(s.Teams), plan.MaxItems)])
	for i := range s.Teams {
		s.Teams[i] = cut(s.Teams[i])
	}
	s.DynamicPorts = slices.Clone(s.DynamicPorts[:min(len(s.DynamicPorts), plan.MaxItems)])
	for i, r := range s.DynamicPorts {
		s.DynamicPorts[i] = plan.PortRange{
			Protocol: clean(r.Protocol), First: int(bounded(r.First, math.MaxUint16)), Count: int(bounded(r.Count, math.MaxUint16+1)),
		}
	}
	s.BusyPorts = slices.Clone(s.BusyPorts[:min(len(s.BusyPorts), plan.MaxItems)])
	for i, n := range s.BusyPorts {
		s.BusyPorts[i] = int(bounded(n, math.MaxUint16))
	}
	s.Services = slices.Clone(s.Services[:min(len(s.Services), plan.MaxItems)])
	for i, x := range s.Services {
		s.Services[i] = plan.ServiceProgram{Name: clean(x.Name), Exe: clean(x.Exe)}
	}
	return s
}

// cleanList keeps plan.MaxItems of a list; the clone lets go of the rest.
func cleanList(in []string) []string {
	out := slices.Clone(in[:min(len(in), plan.MaxItems)])
	for i := range out {
		out[i] = clean(out[i])
	}
	return out
}

// bounded brings a number between 0 and limit.
func bounded[N int | int64](n N, limit int64) int64 { return min(max(int64(n), 0), limit) }

// cut keeps plan.MaxDetail bytes of whole characters.
func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), plan.MaxDetail)], "") }

// cleanReport bounds the texts and numbers of a report, which end in conditions, events and the status.
func cleanReport(r plan.Report) *plan.Report {
	r.APIVersion, r.AgentVersion = clean(r.APIVersion), clean(r.AgentVersion)
	r.Host, r.Digest = clean(r.Host), clean(r.Digest)
	r.Step, r.Detail, r.BootID, r.DRMAC = clean(r.Step), clean(r.Detail), clean(r.BootID), clean(r.DRMAC)
	r.Phase = plan.Phase(clean(string(r.Phase)))
	r.Generation, r.Seq = bounded(r.Generation, maxNumber), bounded(r.Seq, maxNumber)
	r.Index, r.Total = int(bounded(r.Index, math.MaxInt32)), int(bounded(r.Total, math.MaxInt32))
	if r.Code != "" {
		r.Code = cleanCode(r.Code)
	}
	return &r
}

// clean makes a machine's text fit for people: at most plan.MaxDetail bytes of printable ASCII.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), plan.MaxDetail)]
}

// cleanCode lets letters and digits pass, at most 64, since codes become reasons of conditions.
func cleanCode(s string) string {
	ok := s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if !ok {
		return CodeAgentFailed
	}
	return s
}

// tail keeps the first bytes of standard error for a message.
type tail struct{ kept []byte }

// Write implements io.Writer. It never fails: what is not kept is thrown away.
func (t *tail) Write(p []byte) (int, error) {
	if room := maxStderr - len(t.kept); room > 0 {
		t.kept = append(t.kept, p[:min(len(p), room)]...)
	}
	return len(p), nil
}

// text is one line of printable ASCII.
func (t *tail) text() string { return clean(strings.Join(strings.Fields(string(t.kept)), " ")) }
