package checkpoint

// noFollow has no effect; on Windows creating a link needs a privilege.
const noFollow = 0
