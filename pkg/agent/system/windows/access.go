package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Accounts by security identifier. Their names are in the machine's language ("Administratoren"), the identifiers are
// not ("Well-known SIDs").
const (
	sidSystem         = "S-1-5-18"
	sidAdministrators = "S-1-5-32-544"
	sidUsers          = "S-1-5-32-545"
)

// Access rights: FILE_ALL_ACCESS and FILE_GENERIC_READ|FILE_GENERIC_EXECUTE ("File Access Rights Constants").
const (
	rightsFull        = 0x001f01ff
	rightsReadExecute = 0x001200a9
)

// ACE flags and types ([MS-DTYP] 2.4.4.1).
const (
	aceAllow            = 0x00
	aceObjectInherit    = 0x01
	aceContainerInherit = 0x02
)

// ace is one entry of an access control list.
type ace struct {
	kind, flags uint8
	mask        uint32
	sid         string
}

// descriptor is what is compared of a security descriptor.
type descriptor struct {
	owner string
	// protected is SE_DACL_PROTECTED: nothing is inherited from the folder above.
	protected bool
	// present is false for a missing list, which would let everybody do everything.
	present bool
	aces    []ace
}

// classAces returns the entries of a class; ok is false for an unknown class. On a folder they are inheritable, so that what
// other programs make inside has the folder's class and not the rights of whoever made it.
func classAces(access plan.Access, dir bool) (aces []ace, ok bool) {
	var flags uint8
	if dir {
		flags = aceObjectInherit | aceContainerInherit
	}
	aces = []ace{
		{kind: aceAllow, flags: flags, mask: rightsFull, sid: sidSystem},
		{kind: aceAllow, flags: flags, mask: rightsFull, sid: sidAdministrators},
	}
	switch access {
	case plan.AccessSecret:
		return aces, true
	case plan.AccessPublic:
		return append(aces, ace{kind: aceAllow, flags: flags, mask: rightsReadExecute, sid: sidUsers}), true
	}
	return nil, false
}

// sddl returns the security descriptor of a class in the security descriptor definition language: owner Administrators,
// a protected list, no account names.
func sddl(access plan.Access, dir bool) (string, error) {
	aces, ok := classAces(access, dir)
	if !ok {
		return "", fmt.Errorf("unknown access class %q", access)
	}
	var b strings.Builder
	b.WriteString("O:" + sidAdministrators + "D:P")
	for _, a := range aces {
		inherit := ""
		if a.flags != 0 {
			inherit = "OICI"
		}
		fmt.Fprintf(&b, "(A;%s;0x%x;;;%s)", inherit, a.mask, a.sid)
	}
	return b.String(), nil
}

// classOf returns the class that d equals in owner, protection and entries, in any order; "" when it equals none.
func classOf(d descriptor, dir bool) plan.Access {
	if d.owner != sidAdministrators || !d.protected || !d.present {
		return ""
	}
	for _, access := range []plan.Access{plan.AccessPublic, plan.AccessSecret} {
		want, _ := classAces(access, dir)
		if slices.Equal(sorted(d.aces), sorted(want)) {
			return access
		}
	}
	return ""
}

// sorted puts entries in one order. The order of entries that all allow has no meaning.
func sorted(aces []ace) []ace {
	return slices.SortedFunc(slices.Values(aces), func(a, b ace) int {
		return cmp.Or(cmp.Compare(a.sid, b.sid), cmp.Compare(a.mask, b.mask), cmp.Compare(a.flags, b.flags), cmp.Compare(a.kind, b.kind))
	})
}
