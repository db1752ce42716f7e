package plan

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func (v *validator) services(p Plan) {
	v.count("services", len(p.Services))
	files := map[string]bool{}
	for _, f := range p.Files {
		files[fold(f.Path)] = true
	}
	for _, s := range p.Services {
		it := item("service", s.Name)
		v.serviceName(it, s)
		v.existing(it, s, p.Requires)
		if s.Existing != ExistingUse {
			v.serviceProgram(it, s)
		}
		v.env(it+" variable", s.Env)
		v.serviceFiles(it, s, files)
		v.recovery(it, s.Recovery)
	}
	v.dependencies(p.Services)
}

func (v *validator) existing(it string, s Service, requires []string) {
	if s.Existing == ExistingRefuse {
		return
	}
	if !slices.Contains(requires, CapabilityExisting) {
		v.add(it, "existing needs the capability %q in requires", CapabilityExisting)
	}
	switch s.Existing {
	case ExistingReplace:
	case ExistingUse:
		if !reflect.DeepEqual(s, Service{Name: s.Name, Watch: s.Watch, Existing: s.Existing}) {
			v.add(it, "is somebody else's: only name and watch may be set")
		}
	default:
		v.add(it, "existing %q, must be %q or %q", bounded(string(s.Existing)), ExistingUse, ExistingReplace)
	}
}

func (v *validator) serviceName(it string, s Service) {
	if !nameRule.MatchString(s.Name) {
		v.add(it, "name must match %s", nameRule)
	}
	if fold(s.Name) == fold(AgentService) {
		v.add(it, "is the agent's own service")
	}
	v.unique("service", it, s.Name)
	v.caption(it, "display name", s.DisplayName)
	v.caption(it, "description", s.Description)
}

func (v *validator) caption(it, what, text string) {
	if len(text) > maxName || !printable(text) {
		v.add(it, "%s must be at most %d printable ASCII characters", what, maxName)
	}
}

func (v *validator) serviceProgram(it string, s Service) {
	v.program(it, s.Exe)
	v.count(it+" arguments", len(s.Args))
	total := len(s.Exe)
	for i, a := range s.Args {
		arg := it + " argument " + strconv.Itoa(i+1)
		v.text(arg, "text", a)
		v.resolvers(arg, a)
		total += len(a) + 1
	}
	if total > maxCommandLine {
		v.add(it, "command line has %d bytes, at most %d", total, maxCommandLine)
	}
}

func (v *validator) program(it, exe string) {
	v.exeSuffix(it, exe)
	if len(pathProblems(exe)) == 0 && below(exe, systemDir) {
		return
	}
	v.filePath(it, exe)
}

func (v *validator) serviceFiles(it string, s Service, files map[string]bool) {
	if s.LogFile != "" {
		v.filePath(it+" log file", s.LogFile)
	}
	v.count(it+" watched files", len(s.Watch))
	for _, w := range s.Watch {
		if !files[fold(w)] {
			v.add(it, "watches %q, which is no file of the plan", bounded(w))
		}
	}
}

func (v *validator) recovery(it string, r *Recovery) {
	if r == nil {
		return
	}
	const week = 7 * 24 * 3600
	// More than a handful of actions have no use: the service manager repeats the last one.
	if len(r.RestartDelaySeconds) == 0 || len(r.RestartDelaySeconds) > 16 {
		v.add(it, "recovery has %d restarts, must be 1 to 16", len(r.RestartDelaySeconds))
	}
	for _, d := range append([]int{r.ResetSeconds}, r.RestartDelaySeconds...) {
		if d < 0 || d > week {
			v.add(it, "recovery of %d seconds, must be 0 to %d", d, week)
		}
	}
}

// dependencies checks names, then that managed services form no cycle, then that each stands behind those that it needs.
func (v *validator) dependencies(services []Service) {
	index := map[string]int{}
	for i, s := range services {
		index[fold(s.Name)] = i
	}
	for _, s := range services {
		v.dependencyNames(s)
	}
	if cycle := findCycle(services, index); cycle != nil {
		v.add(item("service", cycle[0]), "depends on itself: %s", strings.Join(cycle, " -> "))
		return
	}
	for i, s := range services {
		for _, d := range s.DependsOn {
			if j, managed := index[fold(d)]; managed && j > i {
				v.add(item("service", s.Name), "stands before %q, which it depends on", services[j].Name)
			}
		}
	}
}

func (v *validator) dependencyNames(s Service) {
	it := item("service", s.Name)
	v.count(it+" dependencies", len(s.DependsOn))
	var seen []string
	for _, d := range s.DependsOn {
		if !nameRule.MatchString(d) {
			v.add(it, "dependency %q must match %s", bounded(d), nameRule)
		}
		if slices.Contains(seen, fold(d)) {
			v.add(it, "dependency %q is given twice", bounded(d))
		}
		seen = append(seen, fold(d))
	}
}

// findCycle returns the names of a dependency cycle, the first repeated at the end, or nil. Names that no service of the
// plan has are Windows' own and lead nowhere.
func findCycle(services []Service, index map[string]int) []string {
	const done = 2
	state := make([]int, len(services))
	var stack []int
	var visit func(i int) []string
	visit = func(i int) []string {
		if state[i] == done {
			return nil
		}
		if at := slices.Index(stack, i); at >= 0 {
			return cycleNames(services, append(stack[at:], i))
		}
		stack = append(stack, i)
		for _, d := range services[i].DependsOn {
			if j, managed := index[fold(d)]; managed {
				if c := visit(j); c != nil {
					return c
				}
			}
		}
		stack = stack[:len(stack)-1]
		state[i] = done
		return nil
	}
	for i := range services {
		if c := visit(i); c != nil {
			return c
		}
	}
	return nil
}

func cycleNames(services []Service, at []int) []string {
	names := make([]string, len(at))
	for i, n := range at {
		names[i] = services[n].Name
	}
	return names
}
