package windows

import (
	"errors"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/plan"
)

// shareAll lets others read, write, rename and delete the file meanwhile.
const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// opening are the arguments of NtCreateFile that differ.
type opening struct {
	access      uint32
	share       uint32
	disposition uint32
	options     uint32
	security    *windows.SECURITY_DESCRIPTOR
	// link opens a reparse point at the end of the path itself. Those above it are refused in any case.
	link bool
}

// open opens a file or folder below the root of its drive. The root is opened first and the rest relative to it with
// OBJ_DONT_REPARSE, so that the kernel itself refuses a junction or symbolic link anywhere in between, without the gap
// between looking and opening that a check of each component would leave. Names go to the kernel as they are: no
// MAX_PATH, no stripped dots; splitPath has refused what Win32 would have rewritten.
func open(op, path string, o opening) (windows.Handle, error) {
	drive, rest, err := splitPath(op, path)
	if err != nil {
		return 0, err
	}
	root, err := openRoot(drive)
	if err != nil {
		return 0, failed(op, path, err)
	}
	if rest == "" {
		// The root has been opened for reading, which is all that is ever asked of one.
		return root, nil
	}
	defer func() { _ = windows.CloseHandle(root) }()
	handle, err := openAt(root, rest, o)
	return handle, failed(op, path, err)
}

func openRoot(drive string) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(`\\?\` + drive + `\`)
	if err != nil {
		return 0, err
	}
	const access = windows.FILE_LIST_DIRECTORY | windows.FILE_TRAVERSE | windows.FILE_READ_ATTRIBUTES | windows.READ_CONTROL | windows.SYNCHRONIZE
	return windows.CreateFile(name, access, shareAll, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
}

// openAt opens a name of one or more components relative to a folder.
func openAt(folder windows.Handle, name string, o opening) (windows.Handle, error) {
	if o.link {
		return openLink(folder, name, o)
	}
	return create(folder, name, windows.OBJ_DONT_REPARSE, o)
}

// openLink opens the last component even when it is a reparse point; its folder must be reached without any.
func openLink(root windows.Handle, rest string, o opening) (windows.Handle, error) {
	folder, name := splitLast(rest)
	o.options |= windows.FILE_OPEN_REPARSE_POINT
	if folder == "" {
		return create(root, name, 0, o)
	}
	parent, err := create(root, folder, windows.OBJ_DONT_REPARSE, opening{
		access: windows.FILE_TRAVERSE | windows.FILE_READ_ATTRIBUTES, share: shareAll,
		disposition: windows.FILE_OPEN, options: windows.FILE_DIRECTORY_FILE,
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = windows.CloseHandle(parent) }()
	return create(parent, name, 0, o)
}

func create(folder windows.Handle, name string, attributes uint32, o opening) (windows.Handle, error) {
	objectName, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return 0, err
	}
	object := windows.OBJECT_ATTRIBUTES{
		RootDirectory: folder, ObjectName: objectName,
		Attributes: attributes | windows.OBJ_CASE_INSENSITIVE, SecurityDescriptor: o.security,
	}
	object.Length = uint32(unsafe.Sizeof(object))
	var (
		handle windows.Handle
		status windows.IO_STATUS_BLOCK
	)
	err = windows.NtCreateFile(&handle, o.access|windows.SYNCHRONIZE, &object, &status, nil, windows.FILE_ATTRIBUTE_NORMAL,
		o.share, o.disposition, o.options|windows.FILE_SYNCHRONOUS_IO_NONALERT|windows.FILE_OPEN_FOR_BACKUP_INTENT, 0, 0)
	runtime.KeepAlive(objectName)
	runtime.KeepAlive(o.security)
	return handle, err
}

// securityOf returns the security descriptor of a class.
func securityOf(access plan.Access, dir bool) (*windows.SECURITY_DESCRIPTOR, error) {
	text, err := sddl(access, dir)
	if err != nil {
		return nil, err
	}
	return windows.SecurityDescriptorFromString(text)
}

// setInformation is NtSetInformationFile for a structure.
func setInformation[T any](handle windows.Handle, class uint32, value *T) error {
	var status windows.IO_STATUS_BLOCK
	return windows.NtSetInformationFile(handle, &status, (*byte)(unsafe.Pointer(value)), uint32(unsafe.Sizeof(*value)), class)
}

// deleteHandle deletes what the handle stands for. With the semantics that Windows calls POSIX the name is free at once, even
// while a reader or a virus scanner still holds the file; file systems other than NTFS know only the older kind, where the name
// goes with the last handle.
func deleteHandle(handle windows.Handle) error {
	flags := uint32(windows.FILE_DISPOSITION_DELETE | windows.FILE_DISPOSITION_POSIX_SEMANTICS | windows.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
	err := setInformation(handle, windows.FileDispositionInformationEx, &flags)
	if !lacking(err) {
		return err
	}
	return markDeleted(handle, true)
}

// markDeleted sets or clears the mark by which a file goes when its last handle is closed.
func markDeleted(handle windows.Handle, deleted bool) error {
	var mark uint8
	if deleted {
		mark = 1
	}
	return setInformation(handle, windows.FileDispositionInformation, &mark)
}

// lacking reports that the file system or this Windows does not know a request.
func lacking(err error) bool {
	var status windows.NTStatus
	return errors.As(err, &status) && slices.Contains([]windows.NTStatus{
		windows.STATUS_INVALID_INFO_CLASS, windows.STATUS_INVALID_PARAMETER, windows.STATUS_NOT_SUPPORTED,
		windows.STATUS_INVALID_DEVICE_REQUEST, windows.STATUS_NOT_IMPLEMENTED,
	}, status)
}

// rename moves what the handle stands for to a name in a folder, and replaces what is there.
func rename(handle, folder windows.Handle, name string) error {
	// FileRenameInformationEx, since Windows 10 1709 and Server 2019.
	const renameEx = 65
	err := renameClass(handle, folder, name, renameEx, windows.FILE_RENAME_REPLACE_IF_EXISTS|windows.FILE_RENAME_POSIX_SEMANTICS)
	if !lacking(err) {
		return err
	}
	return renameClass(handle, folder, name, windows.FileRenameInformation, windows.FILE_RENAME_REPLACE_IF_EXISTS)
}

// renameInformation is FILE_RENAME_INFORMATION with room for the longest name.
type renameInformation struct {
	// Flags is a BOOLEAN in FileRenameInformation, of which only the first byte counts.
	Flags          uint32
	RootDirectory  windows.Handle
	FileNameLength uint32
	FileName       [maxName + 1]uint16
}

func renameClass(handle, folder windows.Handle, name string, class, flags uint32) error {
	utf16Name, err := windows.UTF16FromString(name)
	if err != nil {
		return err
	}
	info := renameInformation{Flags: flags, RootDirectory: folder, FileNameLength: uint32(2 * (len(utf16Name) - 1))}
	copy(info.FileName[:], utf16Name)
	return setInformation(handle, class, &info)
}
