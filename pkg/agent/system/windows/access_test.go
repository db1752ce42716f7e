package windows

import (
	"regexp"
	"testing"

	"github.com/windowsmachine/operator/pkg/plan"
)

// TestW39RightsBySID: rights are given to identifiers, never to account names, which are in the machine's language.
func TestW39RightsBySID(t *testing.T) {
	for _, tt := range []struct {
		access plan.Access
		dir    bool
		want   string
	}{
		{plan.AccessPublic, false, `O:S-1-5-32-544D:P(A;;0x1f01ff;;;S-1-5-18)(A;;0x1f01ff;;;S-1-5-32-544)(A;;0x1200a9;;;S-1-5-32-545)`},
		{plan.AccessPublic, true, `O:S-1-5-32-544D:P(A;OICI;0x1f01ff;;;S-1-5-18)(A;OICI;0x1f01ff;;;S-1-5-32-544)(A;OICI;0x1200a9;;;S-1-5-32-545)`},
		{plan.AccessSecret, false, `O:S-1-5-32-544D:P(A;;0x1f01ff;;;S-1-5-18)(A;;0x1f01ff;;;S-1-5-32-544)`},
		{plan.AccessSecret, true, `O:S-1-5-32-544D:P(A;OICI;0x1f01ff;;;S-1-5-18)(A;OICI;0x1f01ff;;;S-1-5-32-544)`},
	} {
		got, err := sddl(tt.access, tt.dir)
		if err != nil || got != tt.want {
			t.Errorf("%s, folder %v:\n got %s %v\nwant %s", tt.access, tt.dir, got, err, tt.want)
		}
		if names := regexp.MustCompile(`;;;[^S)]`).FindString(got); names != "" {
			t.Errorf("%s names an account other than by its identifier", got)
		}
	}
}

func TestUnknownClassIsRefused(t *testing.T) {
	for _, access := range []plan.Access{"", "Public", "everyone"} {
		if got, err := sddl(access, false); err == nil {
			t.Errorf("class %q gives %s", access, got)
		}
	}
}

// descriptorWith returns a descriptor of the class, changed by the functions.
func descriptorWith(access plan.Access, dir bool, change ...func(*descriptor)) descriptor {
	aces, _ := classAces(access, dir)
	d := descriptor{owner: sidAdministrators, protected: true, present: true, aces: aces}
	for _, f := range change {
		f(&d)
	}
	return d
}

func TestClassOf(t *testing.T) {
	const everyone = "S-1-1-0"
	for _, tt := range []struct {
		name string
		d    descriptor
		dir  bool
		want plan.Access
	}{
		{"public file", descriptorWith(plan.AccessPublic, false), false, plan.AccessPublic},
		{"secret file", descriptorWith(plan.AccessSecret, false), false, plan.AccessSecret},
		{"public folder", descriptorWith(plan.AccessPublic, true), true, plan.AccessPublic},
		{"secret folder", descriptorWith(plan.AccessSecret, true), true, plan.AccessSecret},
		{"entries in another order", descriptorWith(plan.AccessPublic, false, func(d *descriptor) {
			d.aces[0], d.aces[2] = d.aces[2], d.aces[0]
		}), false, plan.AccessPublic},
		{"a folder's list on a file", descriptorWith(plan.AccessPublic, true), false, ""},
		{"a file's list on a folder", descriptorWith(plan.AccessPublic, false), true, ""},
		{"another owner, who can rewrite the list", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.owner = "S-1-5-21-1-2-3-1001" }), false, ""},
		{"SYSTEM as owner", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.owner = sidSystem }), false, ""},
		{"inherits", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.protected = false }), false, ""},
		{"no list at all", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.present, d.aces = false, nil }), false, ""},
		{"empty list", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.aces = nil }), false, ""},
		{"one more account", descriptorWith(plan.AccessSecret, false, func(d *descriptor) {
			d.aces = append(d.aces, ace{mask: rightsReadExecute, sid: everyone})
		}), false, ""},
		{"users may write", descriptorWith(plan.AccessPublic, false, func(d *descriptor) { d.aces[2].mask = rightsFull }), false, ""},
		{"a denial", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.aces[0].kind = 1 }), false, ""},
		{"an inherited entry", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.aces[0].flags = 0x10 }), false, ""},
		{"entry twice", descriptorWith(plan.AccessSecret, false, func(d *descriptor) { d.aces = append(d.aces, d.aces[0]) }), false, ""},
	} {
		if got := classOf(tt.d, tt.dir); got != tt.want {
			t.Errorf("%s: class %q, want %q", tt.name, got, tt.want)
		}
	}
}
