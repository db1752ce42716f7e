package windows

import (
	"errors"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

// errExclusion: not exactly one of process and path.
var errExclusion = errors.New("a Defender exclusion names either a process or a path")

// exclusion returns the property of MSFT_MpPreference and the value in it.
func exclusion(e plan.DefenderExclusion) (property, value string, err error) {
	switch {
	case e.Process != "" && e.Path == "":
		return "ExclusionProcess", e.Process, nil
	case e.Path != "" && e.Process == "":
		return "ExclusionPath", e.Path, nil
	}
	return "", "", errExclusion
}

// excluded reports whether the list holds the value. Windows compares paths without regard to case, and Defender drops a
// backslash at the end.
func excluded(list []string, value string) bool {
	for _, v := range list {
		if strings.EqualFold(strings.TrimSuffix(v, `\`), strings.TrimSuffix(value, `\`)) {
			return true
		}
	}
	return false
}
