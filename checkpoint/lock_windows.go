package checkpoint

// noFollow would open a file and no symbolic link to one; to make a link takes a privilege
// on Windows.
const noFollow = 0
