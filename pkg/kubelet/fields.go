package kubelet

import (
	"slices"
	"strings"
)

// span is the first and the last of fieldVersions, by index, that know a field.
type span struct{ first, last int }

// schema is what a kubelet knows: the JSON paths of its fields, and which of them hold fields themselves.
type schema struct{ fields, parents map[string]bool }

func supported(v Version) bool { return v.Major == 1 && v.Minor >= fieldVersions()[0] }

// knownFields returns the fields that a kubelet surely knows. A version between two of the table's must have a field in both
// to count, one newer than the table is taken for the newest; one that is older than the table knows none.
func knownFields(v Version) schema {
	k := schema{fields: map[string]bool{}, parents: map[string]bool{}}
	if !supported(v) {
		return k
	}
	minors := fieldVersions()
	lower, exact := slices.BinarySearch(minors, v.Minor)
	upper := lower
	if !exact {
		lower--
		upper = min(upper, len(minors)-1)
	}
	for path, s := range fieldTable() {
		if s.first <= lower && s.last >= upper {
			k.fields[path] = true
			if i := strings.LastIndexByte(path, '.'); i >= 0 {
				k.parents[path[:i]] = true
			}
		}
	}
	return k
}

// prune removes from m every field that is not known and returns the paths of what it removed. Lists of objects count
// as their elements.
func prune(m map[string]any, prefix string, known schema) []string {
	var removed []string
	for name, value := range m {
		path := prefix + name
		if !known.fields[path] {
			delete(m, name)
			removed = append(removed, path)
			continue
		}
		if known.parents[path] {
			removed = append(removed, pruneValue(value, path+".", known)...)
		}
	}
	slices.Sort(removed)
	return removed
}

func pruneValue(value any, prefix string, known schema) []string {
	switch value := value.(type) {
	case map[string]any:
		return prune(value, prefix, known)
	case []any:
		var removed []string
		for _, e := range value {
			removed = append(removed, pruneValue(e, prefix, known)...)
		}
		return removed
	}
	return nil
}

// notOnWindows are the fields of a Linux worker's configuration that are not carried over, each with the reason. A path
// ends a whole subtree.
func notOnWindows() map[string]string {
	const (
		cgroup  = "control groups are Linux's"
		linux   = "has a meaning on Linux only"
		path    = "is a path on the Linux worker"
		own     = "is set for Windows below"
		refused = "a Windows kubelet refuses to start with it"
		logs    = "its type is versioned with another module; the log level goes by flag"
	)
	return map[string]string{
		"address":                      "is an address of the Linux worker",
		"allowedUnsafeSysctls":         linux,
		"authentication.x509":          own,
		"cgroupDriver":                 cgroup,
		"cgroupRoot":                   cgroup,
		"cgroupsPerQOS":                own,
		"containerRuntimeEndpoint":     own,
		"cpuCFSQuota":                  linux,
		"cpuCFSQuotaPeriod":            linux,
		"cpuManagerPolicy":             linux,
		"cpuManagerPolicyOptions":      linux,
		"cpuManagerReconcilePeriod":    linux,
		"defaultPodSysctls":            refused,
		"enableServer":                 "without a server there are no logs, no metrics and no exec",
		"enforceNodeAllocatable":       own,
		"failCgroupV1":                 cgroup,
		"failSwapOn":                   linux,
		"featureGates":                 own,
		"hairpinMode":                  linux,
		"imageServiceEndpoint":         path,
		"iptablesDropBit":              linux,
		"iptablesMasqueradeBit":        linux,
		"kernelMemcgNotification":      cgroup,
		"kubeReservedCgroup":           cgroup,
		"kubeletCgroups":               cgroup,
		"logging":                      logs,
		"makeIPTablesUtilChains":       linux,
		"maxOpenFiles":                 linux,
		"memoryManagerPolicy":          linux,
		"memoryReservationPolicy":      cgroup,
		"memorySwap":                   linux,
		"memoryThrottlingFactor":       cgroup,
		"oomScoreAdj":                  linux,
		"podCIDR":                      "belongs to a kubelet without a cluster",
		"podLogsDir":                   path,
		"podPidsLimit":                 cgroup,
		"port":                         "the firewall rule opens the default port 10250",
		"protectKernelDefaults":        linux,
		"providerID":                   "is the Linux worker's own",
		"qosReserved":                  cgroup,
		"readOnlyPort":                 "would serve without authentication",
		"registerNode":                 own,
		"registerWithTaints":           own,
		"reservedMemory":               linux,
		"reservedSystemCPUs":           linux,
		"resolvConf":                   own,
		"rotateCertificates":           own,
		"runOnce":                      "would end the kubelet",
		"seccompDefault":               linux,
		"serverTLSBootstrap":           own,
		"showHiddenMetricsForVersion":  "speaks of one version",
		"singleProcessOOMKill":         refused,
		"staticPodPath":                path,
		"staticPodURL":                 "static pods of Linux workers do not run on Windows",
		"staticPodURLHeader":           "static pods of Linux workers do not run on Windows",
		"systemCgroups":                cgroup,
		"systemReservedCgroup":         cgroup,
		"tlsCertFile":                  path,
		"tlsPrivateKeyFile":            path,
		"topologyManagerPolicy":        linux,
		"topologyManagerPolicyOptions": linux,
		"topologyManagerScope":         linux,
		"tracing":                      logs,
		"userNamespaces":               refused,
		"volumePluginDir":              path,
	}
}

// dropPaths removes the given dotted paths from m.
func dropPaths(m map[string]any, paths map[string]string) {
	for p := range paths {
		parts := strings.Split(p, ".")
		at := m
		for _, part := range parts[:len(parts)-1] {
			at, _ = at[part].(map[string]any)
		}
		// Deleting from a nil map does nothing.
		delete(at, parts[len(parts)-1])
	}
}
