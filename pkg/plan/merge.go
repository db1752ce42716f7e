package plan

import "slices"

// Merge returns the plan that has the items of all parts. Of items with the same name the one of the later part stands, in the place of the
// earlier; services are put behind those that they depend on. The result has not passed Validate: two parts may contradict each other.
func Merge(parts ...Plan) Plan {
	out := Empty()
	for _, p := range parts {
		out.Requires = merge(out.Requires, p.Requires, func(s string) string { return s })
		out.Roots = merge(out.Roots, p.Roots, func(s string) string { return s })
		out.Secrets = merge(out.Secrets, p.Secrets, func(s Secret) string { return s.Name })
		out.Env = merge(out.Env, p.Env, func(e EnvVar) string { return e.Name })
		out.Features = merge(out.Features, p.Features, func(f Feature) string { return f.Name })
		out.Directories = merge(out.Directories, p.Directories, func(d Directory) string { return d.Path })
		out.Files = merge(out.Files, p.Files, func(f File) string { return f.Path })
		out.Certificates = merge(out.Certificates, p.Certificates, func(c Certificate) string { return c.Store + c.PEM })
		out.Firewall = merge(out.Firewall, p.Firewall, func(r FirewallRule) string { return r.Name })
		out.Defender = merge(out.Defender, p.Defender, func(d DefenderExclusion) string { return d.Process + "|" + d.Path })
		out.Networks = merge(out.Networks, p.Networks, func(n Network) string { return n.Name })
		out.Routes = merge(out.Routes, p.Routes, func(r Route) string { return r.Destination })
		out.Services = merge(out.Services, p.Services, func(s Service) string { return s.Name })
	}
	out.Services = byDependency(out.Services)
	return out
}

func merge[T any](into, from []T, name func(T) string) []T {
	out := slices.Clone(into)
	for _, v := range from {
		i := slices.IndexFunc(out, func(o T) bool { return fold(name(o)) == fold(name(v)) })
		if i >= 0 {
			out[i] = v
		} else {
			out = append(out, v)
		}
	}
	return out
}

// byDependency keeps the order as far as each service stands behind those that it depends on; a cycle, which Validate refuses, ends where
// it closes.
func byDependency(services []Service) []Service {
	var out []Service
	seen := map[string]bool{}
	var visit func(Service)
	visit = func(s Service) {
		if seen[fold(s.Name)] {
			return
		}
		seen[fold(s.Name)] = true
		for _, d := range s.DependsOn {
			if i := slices.IndexFunc(services, func(o Service) bool { return fold(o.Name) == fold(d) }); i >= 0 {
				visit(services[i])
			}
		}
		out = append(out, s)
	}
	for _, s := range services {
		visit(s)
	}
	return out
}
