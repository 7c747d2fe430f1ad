// Sort a table by a column, filter its rows, and download it as CSV.
for (const table of document.querySelectorAll("table[data-name]")) {
  const body = table.tBodies[0], rows = [...body.rows], shown = Number(table.dataset.shown)
  const text = (row, at) => row.cells[at].textContent
  const number = (row, at) => parseFloat(text(row, at).replace(/[,%]/g, ""))
  const tools = document.createElement("div"), find = document.createElement("input")
  const save = document.createElement("a")
  const lay = () => {
    const word = find.value.toLowerCase()
    let place = 0
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(word)
      row.classList.toggle("more", !word && !row.hidden && place++ >= shown)
      body.append(row)
    }
  }
  ;[...table.tHead.rows[0].cells].forEach((head, at) => {
    head.tabIndex = 0
    head.onclick = () => {
      const up = head.getAttribute("aria-sort") === "descending" ? 1 : -1
      const numeric = head.classList.contains("number")
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort")
      head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending")
      rows.sort((a, b) => up * (numeric ? (number(a, at) || 0) - (number(b, at) || 0)
        : text(a, at).localeCompare(text(b, at))))
      lay()
    }
    head.onkeydown = (event) => { if (event.key === "Enter") head.click() }
  })
  find.placeholder = "filter"
  find.setAttribute("aria-label", "filter " + table.dataset.name)
  find.oninput = lay
  save.textContent = "download CSV"
  save.tabIndex = 0
  save.onclick = () => {
    const quoted = (cell) => {
      // Spreadsheets would run these cells as formulas.
      const safe = cell.textContent.replace(/^([=+@\t\r])/, "'$1")
      return '"' + safe.replace(/"/g, '""') + '"'
    }
    const lines = [...table.rows].map((row) => [...row.cells].map(quoted).join(","))
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "text/csv"}))
    link.download = table.dataset.name + ".csv"
    link.click()
    URL.revokeObjectURL(link.href)
  }
  save.onkeydown = (event) => { if (event.key === "Enter") save.click() }
  tools.className = "tools"
  if (rows.length > 5) tools.append(find)
  tools.append(save)
  table.parentElement.before(tools)
}
