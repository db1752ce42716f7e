package podcidr

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Args are the arguments of kube-controller-manager that decide about ranges.
type Args struct {
	// From is where they were read: Pod kube-system/kube-controller-manager-cp1.
	From string
	// Allocate is --allocate-node-cidrs, false as long as it is not set.
	Allocate bool
	// Cluster is --cluster-cidr.
	Cluster []netip.Prefix
	// NoNodeIPAM is whether --controllers turns the controller off that gives ranges.
	NoNodeIPAM bool
}

// ParseArgs reads the arguments of a container, --flag=value or --flag value; the last one wins, as with the program itself.
func ParseArgs(from string, args []string) Args {
	a := Args{From: from}
	for i, arg := range args {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if !ok && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		switch strings.TrimPrefix(name, "-") {
		case "allocate-node-cidrs":
			// A flag that is true or false takes no value of its own from the next argument.
			a.Allocate = !ok
			if b, err := strconv.ParseBool(value); ok && err == nil {
				a.Allocate = b
			}
		case "cluster-cidr":
			a.Cluster = Prefixes(strings.Split(value, ","))
		case "controllers":
			all := strings.Split(value, ",")
			a.NoNodeIPAM = slices.Contains(all, "-nodeipam") || slices.Contains(all, "-node-ipam-controller")
		}
	}
	return a
}

// Prefixes are those of the texts that are prefixes, masked.
func Prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(strings.TrimSpace(t)); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// text is what the arguments say.
func (a *Args) text() string {
	out := "--allocate-node-cidrs=" + strconv.FormatBool(a.Allocate)
	if len(a.Cluster) > 0 {
		out += " --cluster-cidr=" + list(a.Cluster)
	} else {
		out += " and no --cluster-cidr"
	}
	if a.NoNodeIPAM {
		out += " and -nodeipam in --controllers"
	}
	return out
}

// cause is what the arguments prove, and what mends it.
func (a *Args) cause(add string) string {
	const where = " (kubeadm: /etc/kubernetes/manifests/kube-controller-manager.yaml on each control plane machine)"
	switch {
	case !a.Allocate:
		return a.From + " runs without --allocate-node-cidrs=true: give it " + add + where
	case len(a.Cluster) == 0:
		return a.From + " runs without --cluster-cidr: give it " + add + where
	case a.NoNodeIPAM:
		return a.From + " has turned its controller nodeipam off: take -nodeipam out of --controllers" + where
	}
	return a.From + " is to give ranges and has given none: its log says why (kubectl -n kube-system logs -l component=kube-controller-manager); a --node-cidr-mask-size that is shorter than the range is one cause"
}
