package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/plan"
)

// maxRequest bounds the facts request, in bytes.
const maxRequest = 1 << 20

func (p *program) facts() *cobra.Command {
	return &cobra.Command{
		Use:   "facts",
		Short: "Say what this machine is like; changes nothing",
		Long: `Say what this machine is like: Windows build, host name, addresses, disk, features, services in the way, and how far the agent is.
With --json a request may come on standard input: {"apiServer":"https://...","ca":"<base64 PEM>","blobs":["<sha256>"]}; then the answer also
says whether the API server can be reached and trusted, and which of these payload blobs are here. Nothing is changed.`,
		Example: `  wmcb facts
  echo {} | wmcb facts --json`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			var req plan.FactsRequest
			if p.json {
				var err error
				if req, err = readRequest(p.env.Stdin); err != nil {
					return p.fail(err, nil)
				}
			}
			f, err := p.agent.Facts(ctx, req)
			if err != nil {
				return p.fail(err, nil)
			}
			if p.json {
				return p.line(f)
			}
			return p.table(factRows(f))
		}),
	}
}

// readRequest reads a FactsRequest; an empty input is an empty request.
func readRequest(r io.Reader) (plan.FactsRequest, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRequest+1))
	if err != nil {
		return plan.FactsRequest{}, fmt.Errorf("reading the request: %w", err)
	}
	if len(b) > maxRequest {
		return plan.FactsRequest{}, fmt.Errorf("reading the request: %w: more than %d bytes", plan.ErrTooLarge, maxRequest)
	}
	var req plan.FactsRequest
	if strings.TrimSpace(string(b)) == "" {
		return req, nil
	}
	if err := json.Unmarshal(b, &req); err != nil {
		return plan.FactsRequest{}, fmt.Errorf("reading the request: %w: %w", plan.ErrMalformed, err)
	}
	if len(req.Blobs) > plan.MaxItems {
		return plan.FactsRequest{}, fmt.Errorf("reading the request: %w: more than %d blobs", plan.ErrTooLarge, plan.MaxItems)
	}
	return req, nil
}

func factRows(f plan.HostFacts) [][2]string {
	rows := [][2]string{
		{"host name", f.Hostname},
		{"windows build", fmt.Sprintf("%d.%d", f.Build, f.UBR)},
		{"boot id", f.BootID},
		{"time", f.Time.Format("2006-01-02T15:04:05Z07:00")},
		{"free disk", fmt.Sprintf("%d MiB", f.FreeDisk>>20)},
		{"elevated", fmt.Sprint(f.Elevated)},
		{"defender runs", fmt.Sprint(f.Defender)},
		{"features", strings.Join(f.Features, ", ")},
		{"services in the way", strings.Join(f.ForeignServices, ", ")},
		{"agent", f.AgentVersion},
		{"state", sentence(f.Report)},
	}
	for _, a := range f.Addresses {
		text := a.Prefix + " on " + a.Adapter
		if a.Default {
			text += ", default route"
		}
		if !a.Usable {
			text += ", not usable yet"
		}
		rows = append(rows, [2]string{"address", text})
	}
	return rows
}

func (p *program) followed(ctx context.Context) error {
	r, err := p.agent.FollowNow(ctx, p.report)
	if err != nil {
		return p.fail(err, nil)
	}
	return ended(r)
}

func (p *program) status() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Say how far the machine is",
		Long: `Say how far the machine is: the plan, the step under way or the one that failed and why. With --follow go on until the run that is under
way has ended. The exit code is that of the run: 0, 1 failed, 3 reboot needed.`,
		Example: `  wmcb status
  wmcb status --follow --json`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			if follow {
				return p.watched(p.followed)(ctx)
			}
			r, err := p.agent.Report()
			if err != nil {
				return p.fail(err, nil)
			}
			if p.json {
				err = p.line(r)
			} else {
				err = p.table(statusRows(r))
			}
			if err != nil {
				return p.fail(err, nil)
			}
			return ended(r)
		}),
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on until the run has ended")
	return c
}

// ended turns a report into the end of a command.
func ended(r plan.Report) error {
	if code := exitOfPhase(r.Phase); code != ExitOK {
		return exit(code)
	}
	return nil
}

func statusRows(r plan.Report) [][2]string {
	step, digest := "", ""
	if r.Step != "" {
		step = fmt.Sprintf("%d/%d %s", r.Index, r.Total, r.Step)
	}
	if r.Digest != "" {
		digest = fmt.Sprintf("%.8s, generation %d", r.Digest, r.Generation)
	}
	return [][2]string{
		{"phase", string(r.Phase)},
		{"plan", digest},
		{"host", r.Host},
		{"step", step},
		{"code", r.Code},
		{"detail", r.Detail},
		{"boot id", r.BootID},
		{"agent", r.AgentVersion},
	}
}

// versions is what `wmcb version --json` prints.
type versions struct {
	Version  string `json:"version"`
	Plan     string `json:"plan"`
	Envelope string `json:"envelope"`
	Facts    string `json:"facts"`
	Report   string `json:"report"`
	Go       string `json:"go"`
	Note     string `json:"note,omitempty"`
}

func (p *program) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program and of the formats it speaks",
		Example: `  wmcb version --json`,
		Args:    cobra.NoArgs,
		RunE: p.run(func(context.Context) error {
			v := versions{
				Version: p.env.Version, Plan: plan.APIVersion, Envelope: plan.EnvelopeVersion, Facts: plan.FactsVersion,
				Report: plan.ReportVersion, Go: runtime.Version(), Note: p.env.Note,
			}
			if p.json {
				return p.line(v)
			}
			return p.table([][2]string{{"wmcb", v.Version}, {"plan", v.Plan}, {"go", v.Go}, {"note", v.Note}})
		}),
	}
}
