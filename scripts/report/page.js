const units={ns:1e-9,µs:1e-6,ms:1e-3,s:1,min:60,h:3600,KiB:1024,MiB:1048576,GiB:1073741824,TiB:1099511627776,
  KFLOP:1e3,MFLOP:1e6,GFLOP:1e9,TFLOP:1e12,PFLOP:1e15};
function size(cell){
  const found=/([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)x?\s*([^\s\d\[(\/]*)/.exec(cell.textContent);
  return found?parseFloat(found[1].replaceAll(',',''))*(units[found[2]]||1):-Infinity;
}
for(const head of document.querySelectorAll('th.number'))head.addEventListener('click',()=>{
  const body=head.closest('table').tBodies[0],down=head.getAttribute('aria-sort')!=='descending';
  for(const other of head.parentNode.children)other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort',down?'descending':'ascending');
  const at=head.cellIndex,rows=[...body.rows];
  rows.sort((a,b)=>(size(a.cells[at])-size(b.cells[at]))*(down?-1:1));
  body.append(...rows);
});
const folded=[];
addEventListener('beforeprint',()=>{
  for(const part of document.querySelectorAll('body>details:not([open])')){part.open=true;folded.push(part);}
});
addEventListener('afterprint',()=>{for(const part of folded.splice(0))part.open=false;});
