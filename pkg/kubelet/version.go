package kubelet

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// ErrVersion: a text is not a version.
var ErrVersion = errors.New("not a version")

// versionRule takes what `kubelet --version` and API servers print: "v1.37.2", "1.33.5+k3s1", "v1.34.0-rc.1".
var versionRule = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?(?:[-+][0-9A-Za-z.+_-]{1,64})?$`)

// Version of a Kubernetes program.
type Version struct{ Major, Minor, Patch int }

// ParseVersion reads "v1.37.2"; the v, the patch and anything behind a - or + may be missing.
func ParseVersion(s string) (Version, error) {
	m := versionRule.FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("%w: %.64q", ErrVersion, s)
	}
	var n [3]int
	for i := range n {
		// The expression lets at most four digits through; an absent patch is 0.
		n[i], _ = strconv.Atoi(m[i+1])
	}
	return Version{Major: n[0], Minor: n[1], Patch: n[2]}, nil
}

// String returns "v1.37.2".
func (v Version) String() string { return fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Before reports whether v is older than major.minor.0.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}
