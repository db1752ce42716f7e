package agent

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// maxTail bounds what is taken of the end of a log, maxTaken of a configuration, in bytes; larger configurations are left out.
	maxTail  = 1 << 20
	maxTaken = 1 << 20
	// maxLogs bounds the logs that are taken, maxListed the entries of a listing.
	maxLogs   = 64
	maxListed = 2000
)

// Support writes a zip archive for whoever looks into a problem: what the machine is like, the agent's journal, state and plan, the services of
// plans, their configurations and the ends of their logs. Files that only administrators may read are left out, and what is in them is taken out of
// everything else, as is what looks like a secret. What cannot be read is named in errors.txt. It changes nothing.
func (a *Agent) Support(ctx context.Context, w io.Writer) error {
	s := &support{a: a, ctx: ctx, zip: zip.NewWriter(w), seen: map[string]bool{}}
	s.learn()
	for _, part := range []func(){s.about, s.own, s.services, s.configurations, s.logs, s.listings} {
		if err := ctx.Err(); err != nil {
			return err
		}
		part()
	}
	s.add("errors.txt", []byte(strings.Join(s.troubles, "\n")))
	return errors.Join(s.broken, s.zip.Close())
}

// support is an archive that is being written.
type support struct {
	a   *Agent
	ctx context.Context
	zip *zip.Writer
	redactor
	plan     plan.Plan
	configs  []system.ServiceConfig
	seen     map[string]bool
	troubles []string
	// broken is why nothing more can be written.
	broken error
}

// trouble notes what could not be had.
func (s *support) trouble(what string, err error) {
	if err != nil && !errors.Is(err, system.ErrNotExist) {
		s.troubles = append(s.troubles, what+": "+string(s.text([]byte(err.Error()))))
	}
}

// add writes one text.
func (s *support) add(name string, content []byte) {
	if s.broken != nil {
		return
	}
	f, err := s.zip.Create(name)
	if err == nil {
		_, err = f.Write(s.text(content))
	}
	s.broken = err
}

func (s *support) addJSON(name string, v any) {
	b, err := json.MarshalIndent(v, "", " ")
	s.trouble(name, err)
	s.add(name, b)
}

// learn finds out what secrets there are before anything is written.
func (s *support) learn() {
	rec, had, err := s.a.known()
	s.trouble("plan", err)
	if had && err == nil {
		s.plan, err = rec.plan()
		s.trouble("plan", err)
		waiting, err := s.a.loadPending(rec.Accept)
		s.trouble("secrets", err)
		for _, content := range waiting {
			s.redactor.learn(content)
		}
	}
	for _, f := range s.plan.Files {
		if f.Access == plan.AccessSecret && f.Inline != nil {
			s.redactor.learn(f.Inline)
		}
	}
	for _, path := range s.secretFiles() {
		b, err := disk.Read(s.a.sys.Files, path, maxTaken)
		s.trouble(path, err)
		s.redactor.learn(b)
	}
}

// kubeletState is where a kubelet keeps what it may do on its own.
const kubeletState = `C:\var\lib\kubelet`

func (s *support) secretFiles() []string {
	out := []string{kubeletState + `\kubeconfig`, plan.InstallDir + `\kubeconfig`, plan.InstallDir + `\bootstrap-kubeconfig`}
	for _, p := range s.plan.Secrets {
		out = append(out, p.Path)
	}
	for _, f := range s.plan.Files {
		if f.Access == plan.AccessSecret {
			out = append(out, f.Path)
		}
	}
	return out
}

func (s *support) about() {
	f, err := s.a.Facts(s.ctx, plan.FactsRequest{})
	s.trouble("facts", err)
	s.addJSON("facts.json", f)
}

// own is what the agent keeps. The plan comes without the contents of its files.
func (s *support) own() {
	for _, name := range []string{journalOld, journalFile} {
		s.tail("agent/"+name, rooted(name))
	}
	st, err := s.a.loadState()
	s.trouble(stateFile, err)
	st.Inventory = slices.Clone(st.Inventory)
	for i, o := range st.Inventory {
		st.Inventory[i].Args = redactArgs(o.Args)
		if secretName.MatchString(o.Name) && o.Value != "" {
			st.Inventory[i].Value = redacted
		}
	}
	s.addJSON("agent/"+stateFile, st)
	p := s.plan
	p.Files = slices.Clone(p.Files)
	for i, f := range p.Files {
		if f.Inline != nil {
			p.Files[i].Blob, p.Files[i].Inline = fmt.Sprintf("inline, %d bytes, %s", len(f.Inline), disk.Sum(f.Inline)), nil
		}
	}
	p.Env = redactEnv(p.Env)
	p.Services = slices.Clone(p.Services)
	for i, v := range p.Services {
		p.Services[i].Env, p.Services[i].Args = redactEnv(v.Env), redactArgs(v.Args)
	}
	s.addJSON("agent/plan.json", p)
}

func redactEnv(vars []plan.EnvVar) []plan.EnvVar {
	out := slices.Clone(vars)
	for i, v := range out {
		if secretName.MatchString(v.Name) {
			out[i].Value = redacted
		}
	}
	return out
}

// serviceView is a service as the service manager has it.
type serviceView struct {
	Config system.ServiceConfig
	Status system.ServiceStatus
}

func (s *support) services() {
	var out []serviceView
	for _, name := range append(productServices(), plan.AgentService, "docker", "hns", "vmcompute") {
		c, err := s.a.sys.Services.Config(name)
		if errors.Is(err, system.ErrServiceNotFound) {
			continue
		}
		s.trouble("service "+name, err)
		st, err := s.a.sys.Services.Status(name)
		s.trouble("service "+name, err)
		c.Env, c.Args = redactEnv(c.Env), redactArgs(c.Args)
		s.configs = append(s.configs, c)
		out = append(out, serviceView{c, st})
	}
	s.addJSON("services.json", out)
}

// configurations are the public files that the plan itself has written, those that services are started with, and the network's.
func (s *support) configurations() {
	for _, f := range s.plan.Files {
		if f.Inline != nil && f.Access == plan.AccessPublic {
			s.file(f.Path)
		}
	}
	for _, path := range s.named() {
		s.file(path)
	}
	s.file(`C:\Program Files\containerd\config.toml`)
	for _, folder := range []string{plan.InstallDir + `\cni\config`, `C:\etc\cni\net.d`, `C:\Program Files\containerd\cni\conf`} {
		for _, e := range s.list(folder) {
			if !e.Dir && configName(e.Path) {
				s.file(e.Path)
			}
		}
	}
}

// named are the configurations on the services' command lines.
func (s *support) named() []string {
	var out []string
	for _, c := range s.configs {
		for _, word := range c.Args {
			_, value, joined := strings.Cut(word, "=")
			if !joined {
				value = word
			}
			if configName(value) {
				out = append(out, value)
			}
		}
	}
	return out
}

// configName: a kubeconfig has no ending, and a private key has another one.
func configName(path string) bool {
	if len(path) < 4 || path[1] != ':' {
		return false
	}
	return slices.ContainsFunc([]string{".conf", ".conflist", ".json", ".toml", ".yaml", ".yml"}, func(end string) bool {
		return strings.HasSuffix(strings.ToLower(path), end)
	})
}

// file takes a configuration, unless only administrators may read it.
func (s *support) file(path string) {
	if s.seen[disk.Key(path)] || s.private(path) {
		return
	}
	s.seen[disk.Key(path)] = true
	b, err := disk.Read(s.a.sys.Files, path, maxTaken)
	s.trouble(path, err)
	if err == nil {
		s.add("files/"+archived(path), b)
	}
}

// private: the file is closed to other users, or is one that holds credentials.
func (s *support) private(path string) bool {
	if slices.ContainsFunc(s.secretFiles(), func(p string) bool { return disk.Same(p, path) }) || disk.Below(kubeletState, path) {
		return true
	}
	info, err := s.a.sys.Files.Stat(path)
	return err != nil || info.Dir || info.Access == plan.AccessSecret
}

// archived is a path in the archive: C/k/kubelet.conf.
func archived(path string) string {
	return strings.ReplaceAll(strings.Replace(path, ":", "", 1), `\`, "/")
}

func (s *support) logs() {
	taken := 0
	take := func(path string) {
		if taken < maxLogs && !s.seen[disk.Key(path)] && !s.private(path) {
			s.seen[disk.Key(path)] = true
			taken++
			s.tail("logs/"+archived(path), path)
		}
	}
	for _, v := range s.plan.Services {
		if v.LogFile != "" {
			take(v.LogFile)
		}
	}
	for _, folder := range []string{plan.LogDir + `\kubelet`, plan.LogDir + `\containerd`, plan.LogDir + `\kube-proxy`, plan.LogDir + `\hybrid-overlay`} {
		for _, e := range s.list(folder) {
			if !e.Dir {
				take(e.Path)
			}
		}
	}
}

// tail takes the end of a file. A line that was cut is left out.
func (s *support) tail(name, path string) {
	f, err := s.a.sys.Files.Open(path)
	s.trouble(path, err)
	if err != nil {
		return
	}
	defer f.Close()
	end, cut, err := lastBytes(f, maxTail)
	s.trouble(path, err)
	if cut {
		_, end, _ = strings.Cut(end, "\n")
	}
	s.add(name, []byte(end))
}

// lastBytes reads everything, and keeps the end: files here cannot be sought in.
func lastBytes(r io.Reader, limit int) (end string, cut bool, err error) {
	var keep []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		keep = append(keep, buf[:n]...)
		if len(keep) > 2*limit {
			keep, cut = slices.Clone(keep[len(keep)-limit:]), true
		}
		if err == nil {
			continue
		}
		if len(keep) > limit {
			keep, cut = keep[len(keep)-limit:], true
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return string(keep), cut, err
	}
}

func (s *support) list(folder string) []system.Info {
	list, err := s.a.sys.Files.ReadDir(folder)
	s.trouble(folder, err)
	return list
}

// listings are the names below the product's folders, with size and class and without any content.
func (s *support) listings() {
	var b strings.Builder
	left := maxListed
	var walk func(folder string, depth int)
	walk = func(folder string, depth int) {
		for _, e := range s.list(folder) {
			if left--; left < 0 || depth < 0 {
				return
			}
			fmt.Fprintf(&b, "%12d %-7s %s\n", e.Size, e.Access, e.Path)
			if e.Dir {
				walk(e.Path, depth-1)
			}
		}
	}
	for _, folder := range []string{plan.InstallDir, kubeletState, plan.LogDir, `C:\var\lib\cni`} {
		walk(folder, 4)
	}
	s.add("listing.txt", []byte(b.String()))
}
