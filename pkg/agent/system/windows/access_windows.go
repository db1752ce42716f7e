package windows

import (
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/plan"
)

// maxACEs bounds how much of an access control list is read; a longer list equals no class.
const maxACEs = 64

// SetAccess writes owner and list of this one object. SetSecurityInfo would also walk the tree below a folder and merge
// inheritable entries into what it finds there, which takes long and changes what others have set.
func (files) SetAccess(path string, access plan.Access) error {
	handle, err := open("set access of", path, opening{
		access: windows.WRITE_DAC | windows.WRITE_OWNER | windows.FILE_READ_ATTRIBUTES, share: shareAll, disposition: windows.FILE_OPEN,
	})
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(handle) }()
	var data windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(handle, &data); err != nil {
		return failed("set access of", path, err)
	}
	security, err := securityOf(access, data.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0)
	if err != nil {
		return err
	}
	// The descriptor's control bits carry SE_DACL_PROTECTED.
	err = windows.SetKernelObjectSecurity(handle, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION, security)
	return failed("set access of", path, err)
}

// descriptorOf reads the security descriptor of an open file or folder.
func descriptorOf(handle windows.Handle) (descriptor, error) {
	security, err := windows.GetSecurityInfo(handle, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return descriptor{}, err
	}
	var d descriptor
	owner, _, err := security.Owner()
	if err != nil {
		return d, err
	}
	if owner != nil {
		d.owner = owner.String()
	}
	control, _, err := security.Control()
	if err != nil {
		return d, err
	}
	d.protected = control&windows.SE_DACL_PROTECTED != 0
	list, _, err := security.DACL()
	if is(err, uint32(windows.ERROR_OBJECT_NOT_FOUND)) || err == nil && list == nil {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.present = true
	d.aces, err = entries(list)
	return d, err
}

// entries reads a list. Only the type, flags and mask of entries other than plain allow and deny ones are read, since their
// layout differs; they equal no class anyway.
func entries(list *windows.ACL) ([]ace, error) {
	var out []ace
	for i := range min(uint32(list.AceCount), maxACEs) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return nil, err
		}
		a := ace{kind: entry.Header.AceType, flags: entry.Header.AceFlags, mask: uint32(entry.Mask)}
		if a.kind == windows.ACCESS_ALLOWED_ACE_TYPE || a.kind == windows.ACCESS_DENIED_ACE_TYPE {
			a.sid = (*windows.SID)(unsafe.Pointer(&entry.SidStart)).String()
		}
		out = append(out, a)
	}
	return out, nil
}
